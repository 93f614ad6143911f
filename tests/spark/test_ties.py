"""Rows that tie: Spark may answer in several ways, and a view must always have the same of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.spark.oracle import World

TIES = {
    "row_number": "SELECT k, s, row_number() OVER (PARTITION BY k ORDER BY v) AS n FROM q",
    "lag": "SELECT k, s, lag(s) OVER (PARTITION BY k ORDER BY v) AS l FROM q",
    "rows": "SELECT k, s, count(*) OVER (PARTITION BY k ORDER BY v ROWS UNBOUNDED PRECEDING) AS n FROM q",
    "rows_without_order": "SELECT k, v, max(v) OVER (PARTITION BY k ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS m "
    "FROM q",
    "top": "SELECT k, s FROM q ORDER BY k LIMIT 3",
    "top_below_an_aggregate": "SELECT count(*) AS n, min(s) AS s FROM (SELECT k, s FROM q ORDER BY v LIMIT 2)",
    "sum_of_text": "SELECT k, sum(x) AS t, avg(x) AS a FROM q GROUP BY k",
    "average_of_huge_numbers": "SELECT k, avg(b) AS a, count(*) AS n FROM q GROUP BY k",
}


QUICK = ("row_number", "top", "average_of_huge_numbers")


@pytest.fixture(scope="module")
def tied(make_world: Callable[..., World], request: pytest.FixtureRequest) -> World:
    """Rows come in the opposite of the order in which ties are broken."""
    world = make_world("tied")
    rows = "(1, 9, 'b', '0.3', 1), (1, 9, 'a', '0.2', 1), (1, 9, 'a', '0.1', 9007199254740992), (2, 9, 'd', '1e16', 5)"
    world.make("q", "k INT, v INT, s STRING, x STRING, b BIGINT", rows)
    wanted = [item.callspec.params["view"] for item in request.session.items if item.path == request.path]  # type: ignore[attr-defined]
    for name in wanted:
        world.create(name, TIES[name])
    for event in (
        "INSERT INTO {q} VALUES (1, 1, 'c', '0.7', 3), (2, 9, 'c', '-1e16', 1), (2, 9, 'b', '1', 9007199254740993)",
        "INSERT INTO {q} VALUES (1, 9, 'A', '0.4', 1)",
        "DELETE FROM {q} WHERE k = 1 AND x = '0.1'",
        "DELETE FROM {q} WHERE s = 'c'",
    ):
        world.run(event)
    world.lake.capture()
    return world


@pytest.mark.parametrize(
    "view", [view if view in QUICK else pytest.param(view, marks=pytest.mark.heavy) for view in TIES]
)
def test_ties_are_broken_when_a_view_is_made_as_when_it_changes(tied: World, view: str) -> None:
    """Spark's answer is one of several; ours must be that of the same view made anew."""
    assert tied.lake.refresh(view).mode == "incremental"
    tied.create(f"{view}_anew", TIES[view])
    ours, anew = (sorted(map(str, tied.lake.read(name).collect())) for name in (view, f"{view}_anew"))
    assert ours == anew
    assert len(ours) == tied.expected(TIES[view], tied.newest_csn()).count()
