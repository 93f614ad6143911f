"""Texts that are close to what a view keeps, but mean something else in Spark: kept right, or recomputed by their code.

Each has tables of a few rows, and is compared with Spark as it is made, at every refresh and at every csn.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from headwater.errors import UnsupportedSql
from tests.spark.oracle import World

if TYPE_CHECKING:
    from headwater import Lake

TABLES = {
    "r": ("k INT, v INT, s STRING", "(1, 9, 'a'), (1, 9, 'b'), (1, 10, 'c'), (2, 1, 'd'), (-2, 7, NULL)"),
    "p": ("g INT, k INT, s STRING", "(1, 1, NULL), (1, 1, 'a'), (1, 2, 'b'), (2, 2, NULL), (3, 1, 'z')"),
    "d": ("k INT, x DOUBLE, t TIMESTAMP", "(1, 0.5, '2024-01-01 10:00:00'), (1, 1.5, '2024-01-01 11:00:00')"),
    "c": ("k INT, c CHAR(3), n VARCHAR(5)", "(1, 'ab', 'ab')"),
    "e": ("k INT, e CHAR(5)", "(7, 'zz')"),
}
HISTORY = (
    "INSERT INTO {r} VALUES (1, 9, 'c'), (2, 1, 'e'), (3, 3, 'f')",
    "INSERT INTO {p} VALUES (2, 2, 'c'), (3, 2, NULL), (4, 4, 'e')",
    "INSERT INTO {d} VALUES (2, 1.0, '2024-01-01 10:02:00'), (1, 8.0, '2024-01-01 10:06:00')",
    "INSERT INTO {e} VALUES (8, 'ab'), (9, 'cd')",
    "INSERT INTO {c} VALUES (2, 'cd', 'cd')",
    "DELETE FROM {r} WHERE s = 'a'",
    "DELETE FROM {p} WHERE s = 'z'",
    "DELETE FROM {d} WHERE k = 2",
    "DELETE FROM {r} WHERE true",
    "INSERT INTO {r} VALUES (4, 4, 'g')",
)
_ROWS = "OVER (PARTITION BY k ORDER BY v ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
KEPT = {
    "ranks_with_rows": f"SELECT k, v, s, rank() {_ROWS} AS n, dense_rank() {_ROWS} AS m, percent_rank() {_ROWS} AS p "
    "FROM r",
    "pivot_of_smallest_text": "SELECT * FROM p PIVOT (min(s) AS l, max(s) AS h FOR k IN (1 AS one, 3 AS three))",
    "nobody_reads_an_aggregate": "SELECT d.k, sum(d.x) AS t FROM d CROSS JOIN (SELECT count(*) AS n FROM r) q "
    "GROUP BY d.k",
    "having_alone": "SELECT 1 AS one FROM r HAVING true",
    "set_of_nothing": "SELECT count(*) AS n, sum(v) AS t, grouping_id() AS g FROM r GROUP BY GROUPING SETS (())",
    "set_of_nothing_having": "SELECT max(v) AS m FROM r GROUP BY GROUPING SETS (()) HAVING count(*) < 5",
    "two_sets_of_nothing": "SELECT count(*) AS n FROM r GROUP BY GROUPING SETS ((), ())",
    "rollup_of_no_rows": "SELECT k, count(*) AS n, sum(v) AS t FROM r GROUP BY ROLLUP (k) HAVING count(*) > 0",
    "tied_by_having": "SELECT d.k, (SELECT max(v) FROM r GROUP BY r.k HAVING r.k = d.k) AS m FROM d",
}
RECOMPUTED = {
    "pivot_first": ("PIVOT", "SELECT * FROM p PIVOT (first(s) FOR k IN (1 AS one, 2 AS two))"),
    "pivot_lists": ("PIVOT", "SELECT * FROM p PIVOT (collect_list(s) AS l, count(*) AS n FOR k IN (1 AS one, 3 AS x))"),
    "pivot_text_and_count": ("PIVOT", "SELECT * FROM p PIVOT (min(s) AS l, count(*) AS n FOR k IN (1 AS one, 3 AS x))"),
    "sessions": (
        "TIME_WINDOW",
        "SELECT session_window.start AS b, count(*) AS n FROM d GROUP BY session_window(t, '5 minutes')",
    ),
    "sliding_windows": (
        "TIME_WINDOW",
        "SELECT k, count(*) AS n FROM (SELECT k, window(t, '10 minutes', '5 minutes') AS w FROM d) GROUP BY k",
    ),
    "chars_of_two_lengths": ("CHAR_COLUMN", "SELECT c.k, e.k AS l FROM c LEFT JOIN e ON c.c = e.e"),
    "char_through_a_union": (
        "CHAR_COLUMN",
        "SELECT u.k FROM (SELECT k, e FROM e UNION ALL SELECT k, c FROM c) u WHERE u.e = 'ab'",
    ),
}
REFUSED = {
    "tied_by_a_function_of_a_key": "SELECT d.k, (SELECT max(v) FROM r GROUP BY r.k HAVING abs(r.k) = d.k) AS m FROM d",
    "tied_by_less_than": "SELECT d.k, (SELECT max(v) FROM r GROUP BY r.k HAVING r.k < d.k) AS m FROM d",
    "tied_by_a_key_of_text": "SELECT d.k, (SELECT max(v) FROM r GROUP BY r.s HAVING r.s = d.k) AS m FROM d",
}


def _reason(lake: Lake, view: str) -> str:
    return next(each.last_reason or "" for each in lake.status().views if each.name == view)


@pytest.mark.heavy
def test_what_is_close_to_what_is_kept_is_kept_right_or_recomputed(make_world: Callable[..., World]) -> None:
    world = make_world("neighbours")
    for name, (columns, rows) in TABLES.items():
        world.make(name, columns, rows)
    world.look()
    for view, sql in KEPT.items():
        world.create(view, sql, "OPTIONS (refresh = 'incremental')")
        world.check(view, label="as made")
    for view, (code, sql) in RECOMPUTED.items():
        world.create(view, sql)
        assert _reason(world.lake, view) == code, view
    for sql in REFUSED.values():
        with pytest.raises(UnsupportedSql) as refused:
            world.create("refused", sql, "OPTIONS (refresh = 'incremental')")
        assert refused.value.code == "CORRELATION"
    for statement in HISTORY:
        world.run(statement)
    for view in KEPT:
        assert world.refresh(view, label=view).mode == "incremental"
        world.check_law(view)
    for view in RECOMPUTED:
        assert world.refresh(view, label=view).mode == "full"


@pytest.mark.heavy
def test_varchar_beside_char_is_text_like_any_other(make_world: Callable[..., World]) -> None:
    world = make_world("varchar")
    world.make("c", *TABLES["c"])
    world.make("r", *TABLES["r"])
    world.look()
    world.create("v", "SELECT c.k, c.n, r.v FROM c LEFT JOIN r ON c.n = r.s", "OPTIONS (refresh = 'incremental')")
    world.run("INSERT INTO {r} VALUES (1, 5, 'ab'), (1, 6, 'cd')")
    world.run("INSERT INTO {c} VALUES (2, 'cd', 'cd')")
    assert world.refresh("v").mode == "incremental"
    world.check_law("v")
