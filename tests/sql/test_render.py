"""From propagation queries to Spark SQL."""

from __future__ import annotations

import sqlglot

from headwater.algebra.query import BaseDelta, CsnRule, Patched, Query, Snapshot
from headwater.algebra.time import Csn, Interval
from headwater.sql.dialect import VerbatimSpark
from headwater.sql.lower import lower
from headwater.sql.relations import Changes
from headwater.sql.render import view_delta_sql
from headwater.sql.storage import merge_sql

TABLES = {"r": ("k", "v"), "s": ("k", "w"), "t": ("k", "x")}


class FakeMoments:
    """Every table at /name, version 10 + csn, changed at every csn."""

    def location(self, table):
        return f"/{table}"

    def version(self, table, csn):
        return 10 + csn

    def changes(self, table, interval):
        return Changes([(10 + csn, Csn(csn)) for csn in range(interval.start + 1, interval.end + 1)])

    def types(self, table):
        return {"k": "int", "v": "string", "w": "decimal(10,2)", "x": "array<int>"}


def rendered(text, *terms, rule=CsnRule.LATEST, sign=1, broadcast=frozenset()):
    plan = lower(text, TABLES, views=frozenset(), functions=None).plan
    names = [f"c{i}" for i in range(len(plan.attributes))]
    found = view_delta_sql([Query(plan, terms, rule, sign)], names, FakeMoments(), broadcast=broadcast)
    sqlglot.parse_one(found, read=VerbatimSpark)
    return found


def test_a_changed_leaf_comes_first_and_meets_the_others_through_their_keys():
    text = "SELECT r.v FROM r JOIN s ON r.k = s.k JOIN t ON s.k = t.k"
    found = rendered(text, Snapshot(Csn(4)), Snapshot(Csn(4)), BaseDelta(Interval(Csn(4), Csn(6))))
    places = [found.index(sign) for sign in ("TABLE_CHANGES_BY_PATH('/t', 15, 16)", "delta.`/s`", "delta.`/r`")]
    assert places == sorted(places)
    assert "CROSS" not in found
    assert "ELEMENT_AT(ARRAY(5, 6)" in found
    assert "GREATEST(" in found
    assert "VERSION AS OF 14" in found


def test_a_leaf_seen_with_its_changes_is_snapshot_and_feed_together():
    found = rendered(
        "SELECT r.v FROM r JOIN s ON r.k = s.k", Patched(Interval(Csn(2), Csn(3))), BaseDelta(Interval(Csn(2), Csn(3)))
    )
    assert "delta.`/r` VERSION AS OF 12 UNION ALL SELECT" in found
    assert "TABLE_CHANGES_BY_PATH('/r', 13, 13)" in found


def test_the_earliest_rule_and_a_negative_sign():
    found = rendered(
        "SELECT r.v FROM r JOIN s ON r.k = s.k",
        BaseDelta(Interval(Csn(0), Csn(1))),
        BaseDelta(Interval(Csn(0), Csn(2))),
        rule=CsnRule.EARLIEST,
        sign=-1,
    )
    assert "LEAST(" in found
    assert "GREATEST(" not in found
    assert "-(`r.__hw_count` * `s.__hw_count`) AS `__hw_count`" in found


def test_a_branch_that_takes_no_part_is_an_empty_relation_of_the_same_types():
    text = "SELECT k, v FROM r UNION ALL SELECT k, w FROM s"
    found = rendered(text, BaseDelta(Interval(Csn(0), Csn(1))), Snapshot(Csn(0)))
    assert "TABLE_CHANGES_BY_PATH('/r', 11, 11)" in found
    assert "delta.`/s`" not in found
    assert "CAST(NULL AS decimal(10,2)) AS `s.w`" in found
    assert "WHERE FALSE" in found


def test_a_small_change_is_broadcast():
    text = "SELECT r.v FROM r JOIN s ON r.k = s.k"
    terms = (BaseDelta(Interval(Csn(0), Csn(1))), Snapshot(Csn(0)))
    assert "BROADCAST(" in rendered(text, *terms, broadcast=frozenset({0}))
    assert "BROADCAST(" not in rendered(text, *terms)


def test_a_cross_product_only_where_the_view_asks_for_one():
    assert "CROSS JOIN" in rendered("SELECT r.v FROM r, s", BaseDelta(Interval(Csn(0), Csn(1))), Snapshot(Csn(0)))


def test_odd_names_are_quoted():
    found = merge_sql("/a`b", "/d", Interval(Csn(1), Csn(2)), ["x`y", "with space"], sign=1)
    assert "delta.`/a``b`" in found
    assert "`t`.`x``y` IS NOT DISTINCT FROM `s`.`x``y`" in found
    sqlglot.parse_one(found, read=VerbatimSpark)
