"""From propagation queries to SQL: fixtures view → delta queries, well formed and with nothing left out."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import sqlglot
from sqlglot import exp

from headwater.algebra.query import CsnRule, Query, Snapshot
from headwater.algebra.time import Csn, Interval
from headwater.propagate.frontier import Frontier, advance
from headwater.sql.dialect import to_text
from headwater.sql.lower import lower
from headwater.sql.relations import Changes, Sources, changes_of, snapshot_table
from headwater.sql.render import view_delta_sql

TABLES = {"r": ("k", "v"), "s": ("k", "w"), "t": ("k", "u")}


class Moments:
    """Tables at /lake/<name>; version = csn + 10, and every csn changes every table unless told otherwise."""

    def __init__(self, quiet: frozenset[str] = frozenset()) -> None:
        self.quiet = quiet

    def location(self, table: str) -> str:
        return f"/lake/{table}"

    def version(self, table: str, csn: Csn) -> int:
        return csn + 10

    def state(self, table: str, csn: Csn) -> exp.Expr:
        return snapshot_table(self.location(table), self.version(table, csn))

    def changes(self, table: str, interval: Interval) -> Changes:
        return Changes([(csn + 10, Csn(csn)) for csn in range(interval.start + 1, interval.end + 1)])

    def types(self, table: str) -> Mapping[str, str]:
        return dict.fromkeys(TABLES[table], "int")

    def has_changes(self, table: str, interval: Interval) -> bool:
        return not interval.is_empty and table not in self.quiet


def delta(text: str, before: tuple[int, ...], after: tuple[int, ...], **options: object) -> tuple[list[str], exp.Expr]:
    """The queries of one step, and their SQL read back."""
    lowered = lower(text, TABLES, functions=None)
    moments = Moments(**options)  # type: ignore[arg-type]
    start = Frontier(tuple(Csn(time) for time in before))
    step = advance(lowered.plan, start, tuple(Csn(time) for time in after), moments)
    names = [name or f"c{i}" for i, name in enumerate(lowered.names)]
    sql = view_delta_sql(step.queries, names, Sources(moments))
    parsed = sqlglot.parse(sql, read="spark")
    assert len(parsed) == 1
    assert parsed[0] is not None
    return [str(query) for query in step.queries], parsed[0]


def reads(tree: exp.Expr) -> list[str]:
    """What is read, as table@version and table(first, last]."""
    found = []
    for table in tree.find_all(exp.Table):
        if isinstance(table.this, exp.Anonymous):
            location, first, last = (part.name for part in table.this.expressions)
            found.append(f"{location.rsplit('/', 1)[1]}[{first}..{last}]")
        elif table.args.get("version"):
            found.append(f"{table.name.rsplit('/', 1)[1]}@{table.args['version'].expression.name}")
    return sorted(found)


FIXTURES = {
    "one table": ("SELECT v FROM r", (0,), (3,), ["rΔ(0, 3]"], ["r[11..13]"]),
    "two tables together": (
        "SELECT v, w FROM r JOIN s ON r.k = s.k",
        (0, 0),
        (2, 2),
        ["rΔ(0, 2] ⋈ s@0", "r@0+Δ(0, 2] ⋈ sΔ(0, 2]"],
        ["r@10", "r[11..12]", "r[11..12]", "s@10", "s[11..12]"],
    ),
    "one leaf behind the other": (
        "SELECT v, w FROM r JOIN s ON r.k = s.k",
        (1, 4),
        (4, 4),
        ["rΔ(1, 4] ⋈ s@1+Δ(1, 4]"],
        ["r[12..14]", "s@11", "s[12..14]"],
    ),
    "a self-join": (
        "SELECT a.v FROM r a JOIN r b ON a.k = b.k",
        (0, 0),
        (1, 1),
        ["aΔ(0, 1] ⋈ b@0", "a@0+Δ(0, 1] ⋈ bΔ(0, 1]"],
        ["r@10", "r@10", "r[11..11]", "r[11..11]", "r[11..11]"],
    ),
}


@pytest.mark.parametrize("title", FIXTURES)
def test_delta_queries(title: str) -> None:
    text, before, after, queries, tables = FIXTURES[title]
    found, tree = delta(text, before, after)
    assert found == queries
    assert reads(tree) == tables


def test_columns_are_the_views_then_count_and_csn() -> None:
    _, tree = delta("SELECT v AS `odd name`, w + 1 AS z FROM r JOIN s USING (k)", (0, 0), (1, 1))
    for select in tree.find_all(exp.Select):
        if select.parent is None or (isinstance(select.parent, exp.Union) and select.parent.parent is None):
            assert select.named_selects == ["odd name", "z", "__hw_count", "__hw_csn"]


def test_a_quiet_table_is_read_as_one_snapshot() -> None:
    queries, tree = delta("SELECT v, w FROM r JOIN s ON r.k = s.k", (0, 3), (3, 3), quiet=frozenset({"s"}))
    assert queries == ["rΔ(0, 3] ⋈ s@0"]
    assert reads(tree) == ["r[11..13]", "s@10"]


def test_a_branch_that_takes_no_part_reads_nothing_and_keeps_its_types() -> None:
    text = "SELECT k FROM r UNION ALL SELECT w FROM s"
    queries, tree = delta(text, (0, 0), (1, 0))
    assert len(queries) == 1
    assert reads(tree) == ["r[11..11]"]
    assert len(list(tree.find_all(exp.Union))) == 1  # the other branch is there, empty
    assert any(isinstance(cast.this, exp.Null) for cast in tree.find_all(exp.Cast))


def test_conditions_stay_in_their_order() -> None:
    """The outer condition once came before the inner one that guards it."""
    lowered = lower(
        "SELECT x.z FROM (SELECT 10 / k AS z, k FROM r WHERE k <> 0) x WHERE 10 / x.k > 1",
        TABLES,
        functions=None,
    )
    query = Query(lowered.plan, (Snapshot(Csn(0)),), CsnRule.LATEST)
    sql = view_delta_sql([query], ["z"], Sources(Moments()))
    assert sql.index("<> 0") < sql.index("> 1")


def test_internal_names_do_not_meet_the_users() -> None:
    """An alias i1 of the user's was once also the name of a nested relation's count."""
    text = "SELECT union1.k, i1.w FROM (SELECT k FROM r UNION ALL SELECT k FROM t) union1 JOIN s i1 ON i1.k = union1.k"
    _, tree = delta(text, (0, 0, 0), (1, 1, 1))
    for select in tree.find_all(exp.Select):
        joined = [join.this for join in select.args.get("joins") or []]
        relations = [select.args["from_"].this, *joined] if joined else []
        provided = [name for each in relations for name in each.this.named_selects]
        assert len(provided) == len(set(provided)), select.sql()


def test_signs_and_rules() -> None:
    lowered = lower("SELECT r.v, s.w FROM r JOIN s ON r.k = s.k", TABLES, functions=None)
    terms = (Snapshot(Csn(1)), Snapshot(Csn(1)))
    latest = view_delta_sql([Query(lowered.plan, terms, CsnRule.LATEST)], ["v", "w"], Sources(Moments()))
    earliest = view_delta_sql([Query(lowered.plan, terms, CsnRule.EARLIEST, sign=-1)], ["v", "w"], Sources(Moments()))
    assert "GREATEST(" in latest
    assert "LEAST(" not in latest
    assert "LEAST(" in earliest
    assert "-(" in earliest.replace(" ", "")


def test_small_changes_are_broadcast_and_others_are_not() -> None:
    lowered = lower("SELECT r.v, s.w FROM r JOIN s ON r.k = s.k", TABLES, functions=None)
    start = Frontier((Csn(0), Csn(0)))
    step = advance(lowered.plan, start, (Csn(1), Csn(0)), Moments())
    plain = view_delta_sql(step.queries, ["v", "w"], Sources(Moments()))
    hinted = view_delta_sql(step.queries, ["v", "w"], Sources(Moments()), broadcast=frozenset({"r"}))
    assert "BROADCAST" not in plain
    assert hinted.count("BROADCAST") == 1


def test_a_feed_is_not_read_across_a_version_that_may_have_changed_the_columns() -> None:
    class Gap(Moments):
        def changes(self, table: str, interval: Interval) -> Changes:
            return Changes([(11, Csn(1)), (12, Csn(2)), (14, Csn(5))])

    text = to_text(changes_of("r", Interval(Csn(0), Csn(5)), ["k"], Gap()))
    assert "TABLE_CHANGES_BY_PATH('/lake/r', 11, 12)" in text
    assert "TABLE_CHANGES_BY_PATH('/lake/r', 14, 14)" in text
    assert text.count("TABLE_CHANGES_BY_PATH") == 2
    assert "ARRAY(1, 2)" in text.upper()
    assert "ARRAY(5)" in text.upper()
