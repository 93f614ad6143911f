"""The session settings that decide what a text means: how Spark reads it, what types its expressions have, and what
functions answer.

A view keeps the values that it was created under, also those that nobody had set: what is set later in the session, or
in the session of another driver, must not give its changes another meaning than its first rows had. Settings that only
decide how fast a query is, when it fails, or how DataFrames, files and tables are handled are not among them.
"""

from __future__ import annotations

MEANING = tuple(
    f"spark.sql.{name}"
    for name in """
    caseSensitive session.timeZone timestampType mapKeyDedupPolicy decimalOperations.allowPrecisionLoss
    ansi.enabled ansi.doubleQuotedIdentifiers ansi.enforceReservedKeywords ansi.relationPrecedence
    parser.escapedStringLiterals parser.quotedRegexColumnNames parser.singleCharacterPipeOperator.enabled
    operatorPipeSyntaxEnabled groupByAliases groupByOrdinal orderByOrdinal allowNamedFunctionArguments
    lateralColumnAlias.enableImplicitResolution analyzer.preferColumnOverLcaInArrayIndex
    analyzer.lowerEmptyGroupingSetToGlobalAggregate.enabled stableDerivedColumnAlias.enabled
    functionResolution.sessionOrder
    readSideCharPadding charAsVarchar preserveCharVarcharTypeInfo chunkBase64String.enabled icu.caseMappings.enabled
    function.concatBinaryAsString function.eltOutputAsString jsonGenerator.ignoreNullFields
    json.enablePartialResults json.enableExactStringParsing variant.allowDuplicateKeys
    legacy.setopsPrecedence.enabled legacy.parser.havingWithoutGroupByAsWhere legacy.exponentLiteralAsDecimal.enabled
    legacy.literal.pickMinimumPrecision legacy.consecutiveStringLiterals.enabled legacy.bangEqualsNot
    legacy.identifierClause legacy.ctePrecedencePolicy legacy.cteDuplicateAttributeNames legacy.duplicateBetweenInput
    legacy.interval.enabled legacy.fromDayTimeString.enabled legacy.timeParserPolicy legacy.sizeOfNull
    legacy.statisticalAggregate legacy.integerGroupingId legacy.groupingIdWithAppendedUserGroupBy
    legacy.createEmptyCollectionUsingStringType legacy.allowParameterlessCount
    legacy.allowStarWithSingleTableIdentifierInCount legacy.allowNegativeScaleOfDecimal
    legacy.decimal.retainFractionDigitsOnTruncate legacy.charVarcharAsString legacy.noCharPaddingInPredicate
    legacy.castComplexTypesToString.enabled legacy.typeCoercion.datetimeToString.enabled
    legacy.doLooseUpcast legacy.followThreeValuedLogicInArrayExists
    legacy.allowNullComparisonResultInArraySort legacy.allowZeroIndexInFormatString legacy.negativeIndexInArrayInsert
    legacy.nullInEmptyListBehavior legacy.inSubqueryNullability legacy.scalarSubqueryCountBugBehavior
    legacy.percentileDiscCalculation legacy.histogramNumericPropagateInputType legacy.lpadRpadAlwaysReturnString
    legacy.truncateForEmptyRegexSplit legacy.javaCharsets legacy.codingErrorAction legacy.collationAwareHashFunctions
    legacy.disableMapKeyNormalization legacy.allowHashOnMapType legacy.json.allowEmptyString.enabled
    legacy.json.enableDateTimeParsingFallback legacy.persistentCatalogFirst
    """.split()  # noqa: SIM905
)
