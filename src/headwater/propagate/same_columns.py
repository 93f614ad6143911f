"""Whether a table's columns are the same ones all along a span of csns.

Columns are renamed and dropped by commits without a csn, so between two numbered versions another column may have taken
a name. Where all versions are numbered there is nothing to ask.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from headwater.algebra.constraints import Constraint, ForeignKey
from headwater.algebra.time import Interval
from headwater.context import Context
from headwater.definition import CatalogMoments
from headwater.engine.spark import StoredCommit
from headwater.sources.column_names import names_after
from headwater.sql.relations import consecutive


def renamed(
    context: Context, moments: CatalogMoments, table: str, span: Interval, columns: Collection[str]
) -> Iterator[tuple[int, str, str | None]]:
    """The columns that have another name, or are gone, where rows change: at which version, and the name there.

    The change feed is read in runs of consecutive versions, each by the names that the table has then; so a column that
    has its old name back by the end of the span was yet another one in between.
    """
    commits = _commits_between(context, moments, table, span)
    if not commits:
        return
    numbered = sorted({unit.version for unit in context.catalog.units(table, span.start, span.end)})
    for version, *_ in consecutive(numbered):
        for name, now in names_after(columns, [each for each in commits if each.version < version]).items():
            if now != name.lower():
                yield version, name, now


def _commits_between(context: Context, moments: CatalogMoments, table: str, span: Interval) -> Sequence[StoredCommit]:
    """The commits of a span that may have given a column's name to another one."""
    if moments.mirror(table) is not None:  # a mirror's columns are those that it was made with
        return ()
    before, last = moments.version(table, span.start), moments.version(table, span.end)
    numbered = {unit.version for unit in context.catalog.units(table, span.start, span.end)}
    between = set(range(before + 1, last + 1)).difference(numbered)
    return context.source.renaming_commits(table, moments.location(table), between) if between else ()


def says_the_same(context: Context, moments: CatalogMoments, constraint: Constraint, span: Interval) -> bool:
    """Whether a constraint is about the same columns wherever rows change: only then do changes alone verify it."""
    return not any(
        any(renamed(context, moments, table, span, _columns_of(constraint, table))) for table in constraint.tables
    )


def _columns_of(constraint: Constraint, table: str) -> tuple[str, ...]:
    own = constraint.columns if constraint.table == table else ()
    if isinstance(constraint, ForeignKey) and constraint.referred_table == table:
        return (*own, *constraint.referred_columns)
    return own
