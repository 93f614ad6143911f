"""What a view may hold, how each construct is kept, and the reason code of what is refused.

One table serves the front end (which refuses by code), the docs (docs/sql.md is generated from it) and the tests (every
row names its own, and every refused row must be refused in one). Codes are part of the public surface: they are never
renamed and never change their meaning.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from sqlglot import exp

from headwater.errors import UnsupportedSql
from headwater.sql.dialect import position


class Method(Enum):
    """How a construct is kept."""

    LINEAR = "only the changed rows are joined, projected and filtered"
    SUMS = (
        "changes are added to what each touched group was, which the view's own table tells where the groups are the "
        "view's rows, and else the group's rows at the beginning of the step, read once"
    )
    KEYS = "groups, partitions or join keys that the change touches are computed anew, others are not"
    FIRST = (
        "changes are compared with the view's own first rows where the view selects from these, and then most concern "
        "none of them; where more of them go than come, and elsewhere, the first rows of the input at the beginning "
        "of the step are computed once"
    )
    WHOLE = "any change computes this part anew from its whole input"


@dataclass(frozen=True, slots=True)
class Kept:
    """A construct that a view may hold; ``tests`` are names in tests/spark/constructs.py."""

    title: str
    method: Method
    tests: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Construct:
    """A construct that is refused at CREATE, by its code."""

    code: str
    title: str
    remedy: str
    example: str


KEPT: tuple[Kept, ...] = (
    Kept(
        "SELECT with deterministic built-in expressions, WHERE, inner, cross and comma joins on any condition, "
        "subqueries in FROM, CTEs",
        Method.LINEAR,
        ("spj", "below_join", "cte_twice"),
    ),
    Kept("UNION ALL", Method.LINEAR, ("union_all", "union_of_aggregates")),
    Kept(
        "LATERAL VIEW and generators (explode, posexplode, inline, stack)", Method.LINEAR, ("lateral_view", "generator")
    ),
    Kept("LATERAL subqueries", Method.LINEAR, ("lateral", "lateral_aggregate")),
    Kept("another materialized view in FROM", Method.LINEAR, ("view_on_view",)),
    Kept(
        "GROUP BY expressions, positions, aliases, ALL; HAVING",
        Method.KEYS,
        ("by_expression", "by_position", "by_alias", "by_all", "having", "over_join", "expression_of_aggregates"),
    ),
    Kept(
        "COUNT, SUM, AVG of whole numbers and decimals (of doubles: keys)",
        Method.SUMS,
        ("count_sum", "avg_exact", "aggregate_of_aggregate"),
    ),
    Kept("MIN, MAX", Method.KEYS, ("min_max",)),
    Kept("variance, standard deviation", Method.KEYS, ("moments",)),
    Kept("bool and bit aggregates", Method.KEYS, ("bool_bit",)),
    Kept("COUNT, SUM, AVG of DISTINCT values; FILTER", Method.KEYS, ("distinct_args", "filtered")),
    Kept(
        "collect_list, collect_set, percentiles and every other deterministic aggregate",
        Method.KEYS,
        ("collected", "percentiles"),
    ),
    Kept("ROLLUP, CUBE, GROUPING SETS", Method.KEYS, ("rollup", "cube", "grouping_sets", "with_rollup")),
    Kept("PIVOT by the values of one column", Method.KEYS, ("pivot", "pivot_of_query")),
    Kept("aggregates without GROUP BY (COUNT, SUM, AVG of exact numbers: sums)", Method.WHOLE, ("global",)),
    Kept("SELECT DISTINCT, UNION", Method.SUMS, ("distinct", "union")),
    Kept("INTERSECT, EXCEPT and their ALL forms", Method.SUMS, ("intersect", "intersect_all", "except", "except_all")),
    Kept(
        "LEFT, RIGHT and FULL OUTER JOIN with an equality",
        Method.KEYS,
        (
            "left_join",
            "right_join",
            "full_join",
            "full_using",
            "left_condition",
            "left_chain",
            "left_derived",
            "left_aggregate",
        ),
    ),
    Kept("outer, semi and anti joins without an equality", Method.WHOLE, ("left_without_key",)),
    Kept("LEFT SEMI JOIN, LEFT ANTI JOIN", Method.KEYS, ("semi_join", "anti_join")),
    Kept(
        "IN, NOT IN, EXISTS, NOT EXISTS",
        Method.KEYS,
        (
            "in_query",
            "not_in_query",
            "not_in_nonnull",
            "not_in_correlated",
            "pair_in",
            "exists",
            "not_exists",
            "exists_or",
            "in_value",
            "exists_value",
            "nested",
        ),
    ),
    Kept(
        "scalar subqueries, correlated by equality or not, in SELECT, WHERE and HAVING",
        Method.KEYS,
        ("scalar", "scalar_correlated", "scalar_selected", "scalar_count", "scalar_having"),
    ),
    Kept(
        "window functions with PARTITION BY, QUALIFY",
        Method.KEYS,
        ("ranked", "running", "two_partitions", "named_window", "qualify", "latest"),
    ),
    Kept("window functions without PARTITION BY", Method.WHOLE, ("window_of_aggregates",)),
    Kept("ORDER BY with LIMIT and OFFSET", Method.FIRST, ("top", "top_offset", "top_of_union")),
)

REFUSED: tuple[Construct, ...] = (
    Construct(
        "UNION_BY_NAME",
        "UNION ALL BY NAME",
        "List the columns of both sides in the same order and use UNION ALL.",
        "SELECT k FROM r UNION ALL BY NAME SELECT k FROM s",
    ),
    Construct(
        "SUBQUERY",
        "subqueries in places where no join can stand for them",
        "Write it as a join in FROM.",
        "SELECT k, v IN (SELECT v FROM s WHERE s.k = r.k) AS found FROM r",
    ),
    Construct(
        "CORRELATION",
        "subqueries tied to the query around them in a way that no join expresses",
        "Write the subquery as a join in FROM.",
        "SELECT k FROM r WHERE v > (SELECT count(*) FROM s WHERE s.k < r.k)",
    ),
    Construct(
        "UNGROUPED",
        "columns beside GROUP BY that are not written as in GROUP BY",
        "Repeat the expression of GROUP BY word for word.",
        "SELECT v + k AS x FROM r GROUP BY k + v",
    ),
    Construct(
        "ORDER_BOUND",
        "window functions whose answer depends on the order of rows that tie, or that add up floating-point numbers",
        "Use decimals, or ROWS frames, or a function that ties do not change.",
        "SELECT k, last_value(v) OVER (PARTITION BY k ORDER BY v) AS l FROM r",
    ),
    Construct(
        "ORDER_BY",
        "ORDER BY without LIMIT, SORT BY, CLUSTER BY and DISTRIBUTE BY in the query",
        "A view is a bag without order: order when you read it.",
        "SELECT k FROM r ORDER BY k",
    ),
    Construct(
        "LIMIT",
        "LIMIT and OFFSET without ORDER BY, or by anything but a number",
        "Say by ORDER BY which rows are the first.",
        "SELECT k FROM r LIMIT 3",
    ),
    Construct(
        "LATERAL",
        "LATERAL with an outer join, or of anything but a query or a generator",
        "Join the rows in FROM.",
        "SELECT r.k FROM r LEFT JOIN LATERAL (SELECT k FROM s WHERE s.k = r.k) x",
    ),
    Construct(
        "GENERATOR",
        "generators beside GROUP BY, or without names for their columns",
        "Name their columns, and aggregate in a query around it.",
        "SELECT explode(array(1, 2)) FROM r",
    ),
    Construct(
        "PIVOT",
        "UNPIVOT, and PIVOT of a join, by several columns, or of anything but plain aggregates of which it is known "
        "whatever their types how Spark expands them: counts, sums, averages and the like, or min and max without "
        "counts",
        "Pivot when you read the view, or pivot a subquery.",
        "SELECT * FROM r UNPIVOT (x FOR name IN (k, v))",
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
        "TIME_WINDOW",
        "window, session_window and window_time: they repeat, merge or leave out rows",
        "Group by what tells the time span of a row alone, such as date_trunc('HOUR', t).",
        "SELECT count(*) AS n FROM r GROUP BY session_window(timestamp_seconds(v), '5 minutes')",
    ),
    Construct(
        "CHAR_COLUMN",
        "columns of type CHAR, which Spark fills up with blanks where it reads and compares them",
        "Declare the column as STRING or VARCHAR.",
        "",
    ),
    Construct(
        "UNNAMED_COLUMN",
        "a reference to a column of a subquery that has no name of its own",
        "Give the expression in the subquery an alias.",
        "SELECT x.`(k + 1)` AS y FROM (SELECT k + 1 FROM r) AS x",
    ),
    Construct(
        "VIEW_ON_RECOMPUTED",
        "a materialized view in FROM that is itself recomputed",
        "Read the tables under that view.",
        "SELECT k FROM recomputed_view",
    ),
    Construct(
        "UNGROUPABLE_COLUMN",
        "output columns of type MAP or VARIANT, or with a collation: values that can't be told apart by comparison",
        "Turn it into an array or JSON text, for instance by map_entries or to_json.",
        "SELECT map('a', k) AS m FROM r",
    ),
    Construct(
        "UNSTORABLE_COLUMN",
        "output columns that Delta can't store: of type VOID or INTERVAL, or structs with two fields of one name",
        "Cast the column to a type that Delta stores, or give the fields different names.",
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
        "anything else that is not a query as docs/sql.md lists them",
        "Write it with what docs/sql.md lists.",
        "",
    ),
)

# What Spark computes the same way every time, so that a view may hold it if it is recomputed at every refresh.
RECOMPUTABLE = frozenset(
    """SUBQUERY CORRELATION UNGROUPED LATERAL GENERATOR PIVOT RECURSIVE_CTE TABLE_FUNCTION INLINE_TABLE STRUCT_STAR
    STAR_REPLACE TIME_WINDOW CHAR_COLUMN UNNAMED_COLUMN UNION_BY_NAME VIEW_ON_RECOMPUTED MISREAD OTHER""".split()  # noqa: SIM905
)

BY_CODE = {construct.code: construct for construct in REFUSED}

NONDETERMINISTIC_FUNCTIONS = frozenset(
    """rand random randn uuid shuffle randstr uniform monotonically_increasing_id spark_partition_id input_file_name
    input_file_block_start input_file_block_length current_date curdate current_timestamp now localtimestamp
    current_time current_timezone current_user user session_user current_catalog current_database current_schema version
    current_path reflect java_method try_reflect sample aes_encrypt""".split()  # noqa: SIM905
)
# These are plans rather than functions: Spark puts a node below what they stand in.
TIME_WINDOW_FUNCTIONS = frozenset({"window", "session_window", "window_time"})
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

# Their value depends on the order in which rows come.
ORDER_BOUND_AGGREGATES = frozenset(
    """any_value approx_percentile approx_top_k array_agg collect_list collect_set count_min_sketch first first_value
    histogram_numeric hll_sketch_agg hll_union_agg kll_merge_agg_bigint kll_merge_agg_double kll_merge_agg_float
    kll_sketch_agg_bigint kll_sketch_agg_double kll_sketch_agg_float last last_value listagg max_by min_by mode
    nth_value percentile_approx string_agg theta_intersection_agg theta_sketch_agg theta_union_agg""".split()  # noqa: SIM905
)
# Over floating-point numbers, so does what adds up.
ADDING_AGGREGATES = frozenset(
    """avg mean try_avg sum try_sum std stddev stddev_pop stddev_samp var_pop var_samp variance skewness kurtosis corr
    covar_pop covar_samp regr_avgx regr_avgy regr_intercept regr_r2 regr_slope regr_sxx regr_sxy
    regr_syy""".split()  # noqa: SIM905
)
# These add up squares or quotients as doubles, whatever they are given.
ADDING_AS_DOUBLE = ADDING_AGGREGATES - {"avg", "mean", "try_avg", "sum", "try_sum"}


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
