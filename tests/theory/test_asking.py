"""Which states of a source a query needs, and by which keys."""

from __future__ import annotations

import itertools
import random
from typing import Any

from headwater.algebra.plan import Scan, scans
from headwater.algebra.query import BaseDelta, Query
from headwater.algebra.time import Csn
from headwater.propagate.asking import Asking, Comparable, Follow, KeyPath, askings, questions
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


def never(asked: Scan, column: str, other: Scan, by: str) -> bool:
    return False


def of_one_source(**sources: str) -> Comparable:
    def together(asked: Scan, column: str, other: Scan, by: str) -> bool:
        return sources[asked.table] == sources[other.table]

    return together


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
    found = told(askings(by_leaf["o"], {"c", "r"}, always, never))
    assert [(table, scans, [pair[0] for pair in pairs]) for table, _, scans, pairs in found] == [
        ("c", ["o"], ["k"]),
        ("r", ["o", "c"], ["k"]),
    ]


def test_a_table_of_the_lake_is_gone_through_first_and_has_the_keys() -> None:
    by_leaf = dict(queries(JOIN))
    (asking,) = askings(by_leaf["r"], {"o"}, always, never)
    assert asking.by is not None
    assert [scan.alias for scan in asking.by.scans] == ["r", "c"]
    assert [column for column, _ in asking.by.pairs] == ["c"]
    assert len(asking.by.conditions) == 1


def test_what_no_equality_reaches_is_asked_for_whole_and_gives_no_keys() -> None:
    by_leaf = dict(queries("SELECT o.v, x.a FROM o JOIN x ON o.v < x.a JOIN c ON x.b = c.k AND o.c = c.k"))
    found = told(askings(by_leaf["o"], {"x", "c"}, always, never))
    assert found[0][:3:2] == ("c", ["o"])
    assert found[1][0] == "x"
    assert found[1][3][0][0] == "b"  # by c's keys, once c is there
    by_leaf = dict(queries("SELECT o.v, x.a FROM o JOIN x ON o.v < x.a"))
    assert told(askings(by_leaf["o"], {"x"}, always, never))[0][2] is None


def test_values_of_different_kinds_are_no_keys() -> None:
    by_leaf = dict(queries(JOIN))
    assert told(askings(by_leaf["o"], {"c"}, never, never))[0][2] is None


def test_a_table_joined_with_itself_is_asked_once_for_whole() -> None:
    by_leaf = dict(queries("SELECT a.v, b.v AS w, d.v AS u FROM o a JOIN o b ON a.c = b.k JOIN o d ON a.c = d.c"))
    found = askings(by_leaf["a"], {"o"}, always, never)
    states = {(each.table, each.at) for each in found}
    assert len(found) == len(states)
    for each in found:
        assert (each.by is None) == (sum(1 for other in found if other.at == each.at) == 1 and len(states) == 1)


def test_conditions_on_what_is_there_limit_the_keys() -> None:
    by_leaf = dict(queries("SELECT o.v FROM o JOIN c ON o.c = c.k WHERE o.v > 10 AND c.n < 5"))
    (asking,) = askings(by_leaf["o"], {"c"}, always, never)
    assert asking.by is not None
    assert [to_text(condition) for condition in asking.by.conditions] == ["`o.v` > 10"]


def test_a_union_asks_for_the_branch_that_changed() -> None:
    text = "SELECT o.v FROM o JOIN c ON o.c = c.k UNION ALL SELECT x.a FROM x JOIN r ON x.b = r.k"
    by_leaf = dict(queries(text))
    assert {each.table for each in askings(by_leaf["x"], {"c", "r"}, always, never)} == {"r"}


# ---------------------------------------------------------------------- one question for a source


CHAIN = "SELECT o.v, c.n, r.f FROM o JOIN c ON o.c = c.k JOIN r ON c.n = r.k"


def asked_of(text: str, changed: str, comparable: Comparable = always, **sources: str) -> tuple[Asking, ...]:
    return askings(dict(queries(text))[changed], sources, comparable, of_one_source(**sources))


def waves(found: tuple[Asking, ...], **sources: str) -> list[list[list[str]]]:
    """The tables of each question of each wave."""
    numbers = range(1 + max(each.wave for each in found))
    asked = [questions([each for each in found if each.wave == number], sources) for number in numbers]
    return [[[each.table for each in question] for question in wave] for wave in asked]


def test_relations_of_one_source_that_are_joined_there_are_one_question() -> None:
    found = asked_of(CHAIN, "o", c="A", r="A")
    assert waves(found, c="A", r="A") == [[["c", "r"]]]
    c, r = found
    assert (c.follows, c.sent) == ((), c.by)
    assert r.sent is None
    assert r.follows == (Follow(("c", Csn(3)), (("k", "n"),), changed=False),)
    assert r.by is not None
    assert [scan.alias for scan in r.by.scans] == ["o", "c"]  # for a question of its own, once c is there


def test_a_relation_of_another_source_waits_for_the_answer() -> None:
    found = asked_of(CHAIN, "o", c="A", r="B")
    assert waves(found, c="A", r="B") == [[["c"]], [["r"]]]
    assert found[1].sent == found[1].by


def test_sources_whose_keys_are_known_are_asked_at_once() -> None:
    """The walk reaches c before r, and r does not need it."""
    text = "SELECT o.v FROM o JOIN c ON o.c = c.k JOIN r ON o.k = r.k"
    found = asked_of(text, "o", c="A", r="B")
    assert waves(found, c="A", r="B") == [[["c"], ["r"]]]
    assert waves(found, c="A", r="A") == [[["c", "r"]]]
    for each in found:
        assert each.by is not None
        assert [scan.alias for scan in each.by.scans] == ["o"]


def test_a_table_of_the_lake_in_between_breaks_a_group() -> None:
    assert waves(asked_of(CHAIN, "r", c="A", o="A"), c="A", o="A") == [[["c", "o"]]]
    found = asked_of("SELECT o.v FROM o JOIN c ON o.c = c.k JOIN r ON c.n = r.k JOIN x ON r.f = x.a", "o", c="A", x="A")
    assert waves(found, c="A", x="A") == [[["c"]], [["x"]]]
    assert found[1].sent is not None
    assert [scan.alias for scan in found[1].sent.scans] == ["o", "c", "r"]


def test_what_the_source_takes_for_equal_otherwise_is_not_followed() -> None:
    query = dict(queries(CHAIN))["o"]
    found = askings(query, {"c": "A", "r": "A"}, always, never)
    assert waves(found, c="A", r="A") == [[["c"]], [["r"]]]


def test_keys_and_a_relation_that_is_followed_limit_together() -> None:
    found = asked_of("SELECT o.v FROM o JOIN c ON o.c = c.k JOIN r ON c.n = r.k AND o.v = r.f", "o", c="A", r="A")
    assert waves(found, c="A", r="A") == [[["c", "r"]]]
    r = found[1]
    assert r.sent is not None
    assert r.by is not None
    assert (r.sent.pairs, [scan.alias for scan in r.sent.scans]) == ((("f", "o.v"),), ["o"])
    assert [follow.pairs for follow in r.follows] == [(("k", "n"),)]
    assert sorted(r.by.pairs) == [("f", "o.v"), ("k", "c.n")]


def test_a_column_is_asked_by_what_is_known_first() -> None:
    """r.k equals c.k and o.c, of which the one has to be asked for."""
    found = asked_of("SELECT o.v FROM o JOIN c ON o.c = c.k JOIN r ON c.k = r.k AND o.c = r.k", "o", c="A", r="B")
    assert waves(found, c="A", r="B") == [[["c"], ["r"]]]


def test_a_table_asked_for_whole_is_not_followed() -> None:
    """All its rows would lead to far more than the changed ones do."""
    text = "SELECT o.v FROM o JOIN c ON o.c = c.k JOIN c d ON o.v = d.n JOIN r ON d.k = r.f"
    found = asked_of(text, "o", c="A", r="A")
    assert waves(found, c="A", r="A") == [[["c"]], [["r"]]]
    assert found[0].by is None


def test_changes_beside_a_followed_state_are_told_of() -> None:
    """o has advanced to csn 5, and its leaf is its state at 3 with the changes since."""
    found = asked_of(CHAIN, "r", c="A", o="A")
    assert [(each.table, [follow.changed for follow in each.follows]) for each in found] == [("c", []), ("o", [True])]
    assert [each.at for each in found] == [Csn(3), Csn(3)]


def test_what_is_asked_for_is_all_that_a_query_needs() -> None:
    """Random joins over random rows: what sources answer joins to the same rows as whole tables do."""
    dice = random.Random(11)
    several = followed = 0
    for _ in range(400):
        names = dice.sample(sorted(TABLES), dice.randint(2, 4))
        conditions = [
            f"{a}.{dice.choice(TABLES[a])} = {b}.{dice.choice(TABLES[b])}"
            for b, place in zip(names[1:], range(1, 9), strict=False)
            for a in dice.choices(names[:place], k=dice.randint(1, 2))
        ]
        text = f"SELECT {names[0]}.k AS w FROM {' CROSS JOIN '.join(names)} WHERE {' AND '.join(conditions)}".replace(
            "x.k", "x.a"
        )
        sources = {name: dice.choice("AAB") for name in names if dice.random() < 0.8}
        rows = {
            name: [tuple(dice.choice([None, *range(4)]) for _ in TABLES[name]) for _ in range(dice.randint(1, 8))]
            for name in names
        }
        changed, query = dice.choice(queries(text))
        found = askings(query, sources, always, of_one_source(**sources))
        states = dict(rows)
        for number in range(1 + max((each.wave for each in found), default=-1)):
            here = [each for each in found if each.wave == number]
            for question in questions(here, sources):
                several += len(question) > 1
                answered: dict[str, list[tuple[Any, ...]]] = {}
                for each in question:
                    followed += bool(each.follows)
                    answered[each.table] = [row for row in rows[each.table] if _asked(row, each, states, answered)]
                states |= answered
        assert _joined(names, conditions, states) == _joined(names, conditions, rows), (text, changed, sources)
    assert several > 50
    assert followed > 50


def _asked(
    row: tuple[Any, ...],
    asking: Asking,
    states: dict[str, list[tuple[Any, ...]]],
    answered: dict[str, list[tuple[Any, ...]]],
) -> bool:
    def values(of: tuple[Any, ...], table: str, columns: Any) -> tuple[Any, ...]:
        return tuple(of[TABLES[table].index(column)] for column in columns)

    if asking.sent is not None:
        own = values(row, asking.table, (column for column, _ in asking.sent.pairs))
        if own not in _keys(asking.sent, states):
            return False
    for follow in asking.follows:
        own = values(row, asking.table, (pair[0] for pair in follow.pairs))
        its = {
            values(other, follow.state[0], (pair[1] for pair in follow.pairs)) for other in answered[follow.state[0]]
        }
        if None in own or own not in its:
            return False
    return True


def _keys(path: KeyPath, states: dict[str, list[tuple[Any, ...]]]) -> set[tuple[Any, ...]]:
    names = [scan.table for scan in path.scans]
    conditions = [to_text(condition).replace("`", "") for condition in path.conditions]
    return {
        tuple(row[attribute] for _, attribute in path.pairs)
        for row in map(dict, _joined(names, conditions, states))
        if all(row[attribute] is not None for _, attribute in path.pairs)
    }


def _joined(
    names: list[str], conditions: list[str], states: dict[str, list[tuple[Any, ...]]]
) -> list[tuple[tuple[str, Any], ...]]:
    """The rows of a join of tables, by brute force: attribute and value."""
    sides = [condition.split(" = ") for condition in conditions]
    found = []
    for chosen in itertools.product(*(states[name] for name in names)):
        row = {
            f"{name}.{column}": value
            for name, values in zip(names, chosen, strict=True)
            for column, value in zip(TABLES[name], values, strict=True)
        }
        if all(row[one] is not None and row[one] == row[other] for one, other in sides):
            found.append(tuple(sorted(row.items())))
    return sorted(found, key=repr)
