"""Pieces of changes in the queries of a driver: under aliases of their own, and gone where they have no rows."""

from __future__ import annotations

from headwater.algebra.constraints import ForeignKey, Knowledge, Unique
from headwater.algebra.plan import scans
from headwater.algebra.query import Query, Snapshot
from headwater.algebra.time import Csn, Interval
from headwater.engine.reference import History
from headwater.propagate.fate_driver import in_place
from headwater.propagate.fates import PiecedDelta, change_by_fates
from headwater.propagate.frontier import Frontier, advance
from headwater.propagate.knowing import CountedSigns, Integrity
from tests.theory.keyed import joined

KEY, REFERENCE = Unique("o", ("k",), primary=True), ForeignKey("l", ("p",), "o", ("k",))
OVER = Interval(Csn(0), Csn(2))


def a_day() -> tuple[History, PiecedDelta]:
    """An order comes with its item, another goes with its own."""
    history = History.beginning_with({"o": [(1, None, 0)], "l": [(1, 0)]})
    history.commit({"o": [((2, None, 0), 1)], "l": [((2, 5), 1)]})
    history.commit({"o": [((1, None, 0), -1)], "l": [((1, 0), -1)]})
    known = Knowledge.of([KEY, REFERENCE], OVER)
    return history, change_by_fates(joined("o", "l"), OVER, history, known)


def shown(query: Query | None) -> list[tuple[str, str, str]]:
    assert query is not None
    return [(scan.table, scan.alias, str(query.terms[scan.leaf])) for scan in scans(query.plan)]


def test_a_day_of_new_and_deleted_orders_needs_one_query() -> None:
    _, delta = a_day()
    pieces = {piece.name: piece for piece in delta.pieces}
    assert sorted(pieces) == ["o[born+kept by k]", "o[kept by k]"]
    rows = {"o[kept by k]": 0, "o[born+kept by k]": 1}
    left = [query for each in delta.queries if (query := in_place(each, pieces, rows)) is not None]
    assert [shown(query) for query in left] == [
        [("o", "o0[born+kept by k]", "@0+Δ(0, 2]"), ("l", "l1", "Δ(0, 2]")],
    ]


def test_a_piece_without_rows_leaves_the_table_as_it_was() -> None:
    _, delta = a_day()
    pieces = {piece.name: piece for piece in delta.pieces}
    rows = dict.fromkeys(pieces, 0)
    (left,) = [query for each in delta.queries if (query := in_place(each, pieces, rows)) is not None]
    assert shown(left) == [("o", "o0", "@0"), ("l", "l1", "Δ(0, 2]")]
    assert left.terms[0] == Snapshot(Csn(0))


def test_changes_are_taken_apart_only_where_a_referred_table_is_left_to_be_asked_about() -> None:
    history, _ = a_day()
    plan = joined("o", "l")
    queries = advance(plan, Frontier.at(plan, Csn(0)), (Csn(2), Csn(2)), history).queries
    known = Knowledge.of([KEY, REFERENCE], OVER)
    counted = {"o": {Csn(1): (1, 0), Csn(2): (0, 1)}}
    integrity = Integrity(known, CountedSigns(history, OVER, counted))
    left = integrity.cut(queries)
    assert len(left) == 2  # a day has both kinds of changes
    assert integrity.splits(plan, OVER, left)
    assert integrity.as_json()["pieces"] == ["o[kept by k]", "o[born+kept by k]"]
    assert not integrity.splits(plan, OVER, queries[1:])
    assert not Integrity().splits(plan, OVER, queries)
