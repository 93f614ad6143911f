"""Changes completed from the view, run by SQLite, against their specification."""

from __future__ import annotations

from sqlglot import exp

from headwater.algebra.product import products
from headwater.algebra.time import Csn, Interval
from headwater.algebra.zset import ZSet
from headwater.propagate.from_view import complete, from_view
from headwater.sql.completion import completed, to_be_asked, told_changes
from headwater.sql.dialect import column, to_text
from headwater.sql.relations import COUNT, CSN
from tests.sql.test_verification import Written, run
from tests.theory.keyed import all_known, keyed_world


def as_zset(rows: list[tuple[object, ...]]) -> ZSet:
    return ZSet.of((tuple(row[:-2]), row[-2], row[-1]) for row in rows).consolidate()  # type: ignore[misc]


def test_the_statements_complete_what_the_specification_completes() -> None:
    answered = asked = 0
    for seed in range(40):
        world = keyed_world(seed)
        interval = Interval(Csn(0), world.last)
        for product in products(world.plan):
            for scan in product.scans:
                how = from_view(product, scan.leaf, interval, all_known(world.history), lambda *_: True)
                tables = Written(world.history)
                changes = tables.changes(scan.table, scan.columns, interval)
                if how is None or changes is None or len(products(world.plan)) > 1:
                    continue
                view = world.engine.view_at(world.plan, interval.start)
                expected = complete(how, world.history.base_delta(scan.table, interval), view)
                told = told_changes(changes, scan.columns, how.key, how.tested)
                names = [f"out{place}" for place in range(len(product.outputs))]
                shown = {name: names[place] for name, place in zip(how.key, how.shown, strict=True)}
                columns = dict(zip(scan.attributes, scan.columns, strict=True))
                made = {names[place]: column(columns[value.name]) for place, value in how.made}
                rows = tables._query([*names, COUNT], [(*row, count) for row, count, _ in view])
                assert as_zset(run(to_text(completed(told, rows, shown, names, made)))) == (
                    expected.view_delta.consolidate()
                )
                assert as_zset(run(to_text(to_be_asked(told, scan.columns)))) == expected.to_be_asked.consolidate()
                answered += len(expected.view_delta) > 0
                asked += len(expected.to_be_asked) > 0
    assert answered >= 2
    assert asked >= 5


def test_rows_of_the_view_that_have_a_csn_of_their_own_give_the_later_one() -> None:
    told = exp.select(*(column(name) for name in ("k", "v", COUNT, CSN))).from_("changes")
    view = exp.select(column("k"), column("w"), column(COUNT), column(CSN)).from_("view")
    made = {"twice": exp.Mul(this=column("v"), expression=exp.Literal.number(2))}
    text = to_text(completed(told, view, {"k": "k"}, ["k", "twice", "w"], made, timed=True))
    assert f"GREATEST(`c`.`{CSN}`, `v`.`{CSN}`) AS `{CSN}`" in text
    assert "`c`.`v` * 2 AS `twice`" in text
    assert "`v`.`k` = `c`.`k`" in text
