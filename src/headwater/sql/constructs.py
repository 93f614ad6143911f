"""What a view may hold, how each construct is kept, and the reason code of what is refused.

One table serves the front end (which refuses by code), the docs (docs/limitations.md is generated from it) and the
tests (every refused row must be refused in one). Codes are part of the public surface: they are never
renamed and never change their meaning.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from headwater.errors import UnsupportedSql
from headwater.sql.dialect import position


@dataclass(frozen=True, slots=True)
class Construct:
    code: str
    title: str
    remedy: str
    example: str


REFUSED: tuple[Construct, ...] = (
    Construct(
        "AGGREGATE",
        "aggregate functions and GROUP BY",
        "Keep the join view and aggregate when you read it.",
        "SELECT k, count(*) FROM r GROUP BY k",
    ),
    Construct(
        "DISTINCT",
        "SELECT DISTINCT",
        "Keep duplicates in the view and use DISTINCT when you read it.",
        "SELECT DISTINCT k FROM r",
    ),
    Construct(
        "SET_OPERATION",
        "UNION (distinct), INTERSECT, EXCEPT",
        "Use UNION ALL, and de-duplicate when you read.",
        "SELECT k FROM r UNION SELECT k FROM s",
    ),
    Construct(
        "UNION_BY_NAME",
        "UNION ALL BY NAME",
        "List the columns of both sides in the same order and use UNION ALL.",
        "SELECT k FROM r UNION ALL BY NAME SELECT k FROM s",
    ),
    Construct(
        "OUTER_JOIN",
        "LEFT, RIGHT and FULL OUTER JOIN",
        "Use an inner join, or two views.",
        "SELECT r.k FROM r LEFT JOIN s ON r.k = s.k",
    ),
    Construct(
        "SEMI_JOIN",
        "LEFT SEMI JOIN",
        "Join with the key and remove duplicates when you read.",
        "SELECT r.k FROM r LEFT SEMI JOIN s ON r.k = s.k",
    ),
    Construct(
        "ANTI_JOIN", "LEFT ANTI JOIN", "Filter when you read.", "SELECT r.k FROM r LEFT ANTI JOIN s ON r.k = s.k"
    ),
    Construct(
        "SUBQUERY",
        "subqueries in expressions (IN, EXISTS, scalar)",
        "Write it as a join in FROM.",
        "SELECT k FROM r WHERE k IN (SELECT k FROM s)",
    ),
    Construct(
        "WINDOW",
        "window functions and QUALIFY",
        "Apply the window when you read the view.",
        "SELECT k, row_number() OVER (ORDER BY k) AS n FROM r",
    ),
    Construct(
        "ORDER_BY",
        "ORDER BY, SORT BY, CLUSTER BY and DISTRIBUTE BY in the query",
        "A view is a bag without order: order when you read it.",
        "SELECT k FROM r ORDER BY k",
    ),
    Construct("LIMIT", "LIMIT, OFFSET and FETCH", "Limit when you read the view.", "SELECT k FROM r LIMIT 3"),
    Construct(
        "LATERAL",
        "LATERAL VIEW and LATERAL subqueries",
        "Expand when you read the view.",
        "SELECT k, x FROM r LATERAL VIEW explode(array(1, 2)) e AS x",
    ),
    Construct(
        "GENERATOR",
        "functions that return several rows (explode, inline, stack)",
        "Expand when you read the view.",
        "SELECT explode(array(1, 2)) AS x FROM r",
    ),
    Construct(
        "PIVOT", "PIVOT and UNPIVOT", "Pivot when you read the view.", "SELECT * FROM r PIVOT (sum(v) FOR k IN (1, 2))"
    ),
    Construct(
        "RECURSIVE_CTE",
        "WITH RECURSIVE",
        "Write the query without recursion.",
        "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 3) SELECT r.k FROM r, c WHERE k = n",
    ),
    Construct(
        "TABLE_FUNCTION",
        "table functions in FROM",
        "Write their rows to a Delta table and track it.",
        "SELECT r.k FROM r JOIN range(3) AS n ON r.k = n.id",
    ),
    Construct(
        "INLINE_TABLE",
        "VALUES in FROM",
        "Write the rows to a Delta table and track it.",
        "SELECT r.k FROM r JOIN (VALUES (1), (2)) AS n(k) ON r.k = n.k",
    ),
    Construct(
        "NO_TABLE",
        "a query (or a branch of UNION ALL) without a table",
        "Select from a tracked table.",
        "SELECT 1 AS k",
    ),
    Construct(
        "TIME_TRAVEL",
        "VERSION AS OF and TIMESTAMP AS OF in the view",
        "Views follow their tables; read the view at a moment instead (read(at=...)).",
        "SELECT k FROM r VERSION AS OF 0",
    ),
    Construct("SAMPLE", "TABLESAMPLE", "Sample when you read the view.", "SELECT k FROM r TABLESAMPLE (10 PERCENT)"),
    Construct(
        "NONDETERMINISTIC",
        "functions whose answer changes from run to run or with time or user",
        "Call them when you read the view, or store their value in the base table.",
        "SELECT k, rand() AS x FROM r",
    ),
    Construct(
        "PARAMETER",
        "parameter markers and session variables",
        "Write the value into the text.",
        "SELECT k FROM r WHERE k = :p",
    ),
    Construct(
        "USER_FUNCTION",
        "functions that are not built into Spark",
        "Only built-in functions are known to give the same answer again.",
        "SELECT my_function(k) AS x FROM r",
    ),
    Construct("STRUCT_STAR", "expansion of a struct by *", "List the fields.", "SELECT p.st.* FROM p"),
    Construct("STAR_REPLACE", "* with anything but EXCEPT", "List the columns.", ""),
    Construct(
        "UNNAMED_COLUMN",
        "a reference to a column of a subquery that has no name of its own",
        "Give the expression in the subquery an alias.",
        "SELECT x.`(k + 1)` AS y FROM (SELECT k + 1 FROM r) AS x",
    ),
    Construct(
        "VIEW_ON_VIEW",
        "a materialized view in FROM",
        "Write the view's query as a subquery.",
        "SELECT k FROM existing_view",
    ),
    Construct(
        "UNGROUPABLE_COLUMN",
        "output columns of type MAP or VARIANT, or with a collation: values that can't be told apart by comparison",
        "Turn it into an array or JSON text, for instance by map_entries or to_json.",
        "SELECT map('a', k) AS m FROM r",
    ),
    Construct(
        "UNSTORABLE_COLUMN",
        "output columns of type VOID or INTERVAL, which Delta can't store",
        "Cast the column to a type that Delta stores.",
        "SELECT NULL AS n FROM r",
    ),
    Construct(
        "DUPLICATE_COLUMN",
        "two output columns of one name",
        "Give the columns different aliases.",
        "SELECT r.k, s.k FROM r JOIN s ON r.k = s.k",
    ),
    Construct(
        "RESERVED_COLUMN",
        "output columns whose name begins with __hw_",
        "Choose another alias.",
        "SELECT k AS __hw_k FROM r",
    ),
    Construct(
        "MISREAD",
        "a text that Headwater and Spark read differently",
        "Rewrite the expression in a plainer form and report this.",
        "",
    ),
    Construct(
        "OTHER",
        "anything else that is not a select, a join or UNION ALL",
        "Use SELECT, inner joins, WHERE and UNION ALL.",
        "",
    ),
)

BY_CODE = {construct.code: construct for construct in REFUSED}

NONDETERMINISTIC_FUNCTIONS = frozenset(
    """rand random randn uuid shuffle randstr uniform monotonically_increasing_id spark_partition_id input_file_name
    input_file_block_start input_file_block_length current_date curdate current_timestamp now localtimestamp
    current_time current_timezone current_user user session_user current_catalog current_database current_schema version
    current_path reflect java_method try_reflect sample aes_encrypt""".split()  # noqa: SIM905
)
# Without arguments these read the clock; with arguments they don't.
CLOCK_WITHOUT_ARGUMENTS = frozenset({"unix_timestamp", "to_unix_timestamp"})
GENERATOR_FUNCTIONS = frozenset(
    """explode explode_outer posexplode posexplode_outer inline inline_outer stack json_tuple variant_explode
    variant_explode_outer""".split()  # noqa: SIM905
)
AGGREGATE_FUNCTIONS = frozenset(
    """any any_value approx_count_distinct approx_percentile approx_top_k approx_top_k_accumulate
    approx_top_k_combine array_agg avg bit_and bit_or bit_xor bitmap_and_agg bitmap_construct_agg bitmap_or_agg
    bool_and bool_or collect_list collect_set corr count count_if count_min_sketch covar_pop covar_samp every
    first first_value grouping grouping_id histogram_numeric hll_sketch_agg hll_union_agg kll_merge_agg_bigint
    kll_merge_agg_double kll_merge_agg_float kll_sketch_agg_bigint kll_sketch_agg_double kll_sketch_agg_float
    kurtosis last last_value listagg max max_by mean measure median min min_by mode percentile percentile_approx
    percentile_cont percentile_disc regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx
    regr_sxy regr_syy schema_of_json_agg skewness some std stddev stddev_pop stddev_samp string_agg sum
    theta_intersection_agg theta_sketch_agg theta_union_agg try_avg try_sum tuple_intersection_agg_double
    tuple_intersection_agg_integer tuple_sketch_agg_double tuple_sketch_agg_integer tuple_union_agg_double
    tuple_union_agg_integer var_pop var_samp variance""".split()  # noqa: SIM905
)


def refuse(code: str, found: str, node: exp.Expr | None, text: str) -> UnsupportedSql:
    """The error for a construct, with the place in the text where it stands."""
    construct = BY_CODE[code]
    place = None
    while node is not None and place is None:
        place, node = position(node, text), node.parent
    line, column = place or (None, None)
    return UnsupportedSql(
        f"A view can't be kept incrementally with {construct.title}: found {found}",
        line=line,
        column=column,
        remedy=construct.remedy,
        code=code,
    )
