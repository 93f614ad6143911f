"""Which states of a source a query needs, and by which keys."""

from __future__ import annotations

from headwater.algebra.plan import Scan, scans
from headwater.algebra.query import BaseDelta, Query
from headwater.algebra.time import Csn
from headwater.propagate.asking import Asking, askings
from headwater.propagate.frontier import Frontier, advance
from headwater.sql.dialect import to_text
from headwater.sql.lower import lower

TABLES = {"o": ("k", "c", "v"), "c": ("k", "n"), "r": ("k", "f"), "x": ("a", "b")}


class Everything:
    def has_changes(self, table: str, interval: object) -> bool:
        return True


def queries(text: str) -> list[tuple[str, Query]]:
    """The queries of a step in which every leaf advances from csn 3 to csn 5, by their changed leaf's alias."""
    plan = lower(text, TABLES, functions=None).plan
    found = list(scans(plan))
    step = advance(plan, Frontier(tuple(Csn(3) for _ in found)), tuple(Csn(5) for _ in found), Everything())  # type: ignore[arg-type]
    named = []
    for query in step.queries:
        changed = [scan.alias for scan in found if isinstance(query.terms[scan.leaf], BaseDelta)]
        named.append((changed[0], query))
    return named


def always(asked: Scan, column: str, other: Scan, by: str) -> bool:
    return True


def told(found: tuple[Asking, ...]) -> list[tuple[str, int, list[str] | None, list[tuple[str, str]]]]:
    return [
        (each.table, each.at, None, [])
        if each.by is None
        else (each.table, each.at, [scan.alias for scan in each.by.scans], list(each.by.pairs))
        for each in found
    ]


JOIN = "SELECT o.v, c.n, r.f FROM o JOIN c ON o.c = c.k JOIN r ON c.k = r.k"


def test_a_leaf_is_asked_with_the_values_of_those_before_it() -> None:
    by_leaf = dict(queries(JOIN))
    found = told(askings(by_leaf["o"], {"c", "r"}, always))
    assert [(table, scans, [pair[0] for pair in pairs]) for table, _, scans, pairs in found] == [
        ("c", ["o"], ["k"]),
        ("r", ["o", "c"], ["k"]),
    ]


def test_a_table_of_the_lake_is_gone_through_first_and_has_the_keys() -> None:
    by_leaf = dict(queries(JOIN))
    (asking,) = askings(by_leaf["r"], {"o"}, always)
    assert asking.by is not None
    assert [scan.alias for scan in asking.by.scans] == ["r", "c"]
    assert [column for column, _ in asking.by.pairs] == ["c"]
    assert len(asking.by.conditions) == 1


def test_what_no_equality_reaches_is_asked_for_whole_and_gives_no_keys() -> None:
    by_leaf = dict(queries("SELECT o.v, x.a FROM o JOIN x ON o.v < x.a JOIN c ON x.b = c.k AND o.c = c.k"))
    found = told(askings(by_leaf["o"], {"x", "c"}, always))
    assert found[0][:3:2] == ("c", ["o"])
    assert found[1][0] == "x"
    assert found[1][3][0][0] == "b"  # by c's keys, once c is there
    by_leaf = dict(queries("SELECT o.v, x.a FROM o JOIN x ON o.v < x.a"))
    assert told(askings(by_leaf["o"], {"x"}, always))[0][2] is None


def test_values_of_different_kinds_are_no_keys() -> None:
    by_leaf = dict(queries(JOIN))
    assert told(askings(by_leaf["o"], {"c"}, lambda *_: False))[0][2] is None


def test_a_table_joined_with_itself_is_asked_once_for_whole() -> None:
    by_leaf = dict(queries("SELECT a.v, b.v AS w, d.v AS u FROM o a JOIN o b ON a.c = b.k JOIN o d ON a.c = d.c"))
    found = askings(by_leaf["a"], {"o"}, always)
    states = {(each.table, each.at) for each in found}
    assert len(found) == len(states)
    for each in found:
        assert (each.by is None) == (sum(1 for other in found if other.at == each.at) == 1 and len(states) == 1)


def test_conditions_on_what_is_there_limit_the_keys() -> None:
    by_leaf = dict(queries("SELECT o.v FROM o JOIN c ON o.c = c.k WHERE o.v > 10 AND c.n < 5"))
    (asking,) = askings(by_leaf["o"], {"c"}, always)
    assert asking.by is not None
    assert [to_text(condition) for condition in asking.by.conditions] == ["`o.v` > 10"]


def test_a_union_asks_for_the_branch_that_changed() -> None:
    text = "SELECT o.v FROM o JOIN c ON o.c = c.k UNION ALL SELECT x.a FROM x JOIN r ON x.b = r.k"
    by_leaf = dict(queries(text))
    assert {each.table for each in askings(by_leaf["x"], {"c", "r"}, always)} == {"r"}
