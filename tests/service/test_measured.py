"""Backlogs and samples from the catalog alone: what is pending of each part, and what finished steps tell."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from headwater.algebra.plan import LeafId
from headwater.algebra.time import Csn, Interval
from headwater.apply.driver import has_changed
from headwater.catalog import Catalog, Commit, CostRecord, LeafTime, Lease
from headwater.context import Context
from headwater.definition import Definition, TableUse
from headwater.errors import HeadwaterError, ResponseTimeTooShort
from headwater.measured import LAKE, TOGETHER, Parts, backlog_of, costs_below, gather, measure_of, require_feasible
from headwater.propagate.targets import count_rows
from headwater.refresh import refresh
from headwater.schedule.service_level import ServiceLevel
from tests.service.worlds import ABOVE, JOIN, SUMS, leaves, step, table, view

BETWEEN = "SELECT k, v FROM r WHERE NOT v BETWEEN (SELECT max(s.v) FROM s WHERE s.k = r.k) AND 9"


def test_the_parts_of_a_join_are_its_leaves_and_of_a_view_with_nodes_all_together(
    catalog: Catalog, lease: Lease
) -> None:
    assert Parts.of(JOIN, catalog.leaves("joined")).labels == ("r", "s")
    assert Parts.of(SUMS, catalog.leaves("sums")).labels == ("all leaves",)
    recomputed = view("x", "SELECT 1", "r", definition={**SUMS.definition, "recomputed": "PIVOT"})
    assert Parts.of(recomputed, leaves("r", "s")).kind == "recompute"
    rolling = view("y", JOIN.sql, "r", "s", method="rolling")
    assert len(Parts.of(rolling, leaves("r", "s"))) == 1


def test_a_view_of_an_older_lake_whose_text_is_refused_by_now_is_recomputed() -> None:
    old = view("old", "SELECT r.k, s.v FROM r JOIN (s JOIN r AS t USING (k)) ON r.v = s.v", "r", "s")
    assert Definition.load(old).recomputed == "OTHER"
    assert Parts.of(old, leaves("r", "s")).kind == "recompute"


def test_a_view_whose_text_has_other_nodes_than_were_judged_at_create_is_recomputed() -> None:
    def recomputed(sql: str, **kept: Any) -> str | None:
        old = view("old", sql, "r", "s")
        return Definition.load(replace(old, definition={**old.definition, **kept})).recomputed

    assert recomputed(SUMS.sql) is None
    assert recomputed(SUMS.sql, nodes=["group#1"], judged={"group#1": "ordered"}) is None
    assert recomputed(SUMS.sql, nodes=["group#1", "join#1"]) == "MISREAD"
    assert recomputed(SUMS.sql, judged={"group#2": "ordered"}) == "MISREAD"
    # Views that say nothing of their nodes: that of BETWEEN over a subquery had no NULLs to fill in.
    assert recomputed(BETWEEN) == "MISREAD"
    assert recomputed(BETWEEN, nodes=["group#1", "join#1"]) is None
    assert recomputed("SELECT k, v FROM r WHERE v BETWEEN 1 AND 9") is None


def test_a_view_whose_hidden_columns_nobody_knows_any_more_is_recomputed() -> None:
    """Reading its definition failed, and with it whatever looks at all views."""
    old = view("old", "SELECT k, count(*) AS v FROM r GROUP BY k", "r")
    unknown = replace(old, definition={**old.definition, "hidden": [["__hw_state7", "bigint"]]})
    assert Definition.load(old).recomputed is None
    assert Definition.load(unknown).recomputed == "MISREAD"


def test_texts_of_recomputed_views_mean_the_same_if_their_words_do() -> None:
    """Printing what was read of a text that is misread says nothing of what it means."""

    def whole(text: str) -> Definition:
        return Definition.from_scratch(text, {"r": TableUse((), ())}, {}, {}, "MISREAD")

    text = whole("SELECT 'é' AS e, k -1L AS m FROM r")
    assert text.means(whole("SELECT  'é' /* the same */ AS e, k\n- 1L AS m -- all of it\nFROM r"))
    for other in ("SELECT 'é ' AS e, k -1L AS m FROM r", "SELECT 'é' AS e, k -1 AS m FROM r"):
        assert not text.means(whole(other))
    joins = "SELECT * FROM r, s RIGHT JOIN t ON s.k = t.k", "SELECT * FROM (r, s) RIGHT JOIN t ON s.k = t.k"
    assert not whole(joins[0]).means(whole(joins[1]))
    assert not whole("SELECT '\\%' AS e FROM r").means(whole("SELECT '%' AS e FROM r"))


def test_a_table_that_was_begun_anew_changed_below_all_views(catalog: Catalog, lease: Lease) -> None:
    """Its changes of before are still numbered, and count: a view may be taken back over them."""
    context = Context(catalog, cast(Any, None), cast(Any, None), "/", lambda: 0)

    def changed(of: str, start: int, end: int) -> bool:
        return has_changed(context, catalog.view(of), Interval(Csn(start), Csn(end)))

    only = replace(view("only", "SELECT k, v FROM s", "s"), csn=Csn(4))
    catalog.insert_view(lease, only, leaves("s"))
    assert not changed("above", 4, 5)
    catalog.restart_base_table(lease, replace(catalog.base_table("r"), since_version=7))
    assert changed("above", 4, 5)
    assert changed("above", 0, 1)
    assert not changed("only", 3, 5)


def test_a_recomputed_view_does_not_stay_at_a_csn_up_to_which_a_table_can_not_be_captured(
    catalog: Catalog, lease: Lease
) -> None:
    context = Context(catalog, cast(Any, None), cast(Any, None), "/", lambda: 0)
    kept = replace(view("kept", "SELECT 1", "s", definition={**SUMS.definition, "recomputed": "PIVOT"}), csn=Csn(4))
    catalog.insert_view(lease, kept, leaves("r", "s"))
    catalog.add_base_table(lease, table("t"))
    catalog.number_units(lease, [[Commit("t", 1, 500, "WRITE", 1)]])
    catalog.set_table_problem(lease, "s", {"code": "HISTORY_LOST", "message": "gone"})
    with pytest.raises(HeadwaterError) as caught:
        refresh(context, "kept", Csn(5))
    assert (caught.value.code, catalog.view("kept").csn) == ("HISTORY_LOST", 4)
    catalog.set_table_problem(lease, "s", None)
    assert refresh(context, "kept", Csn(5)).reason == "NO_CHANGES"
    assert catalog.view("kept").csn == 5


def test_the_backlog_of_each_part(catalog: Catalog, lease: Lease) -> None:
    found = backlog_of(catalog, JOIN)
    # The commit that does not tell is taken for one like the others of its table.
    assert (found.csn, found.pending, found.unapplied, found.uncounted) == (4, (60, 6), 66, 1)
    assert found.waiting_since == 100
    assert backlog_of(catalog, JOIN, Csn(2)).pending == (10, 5)
    assert backlog_of(catalog, SUMS).pending == (66,)
    assert backlog_of(catalog, ABOVE).pending == (66,)
    step(catalog, lease, "joined", [4, 1], 1.0)
    assert backlog_of(catalog, JOIN).pending == (0, 6)
    assert backlog_of(catalog, JOIN).unapplied == 66


def test_steps_of_one_part_are_its_samples_and_steps_of_several_are_of_all_together(
    catalog: Catalog, lease: Lease
) -> None:
    step(catalog, lease, "joined", [1, 1], 1.0)
    step(catalog, lease, "joined", [1, 2], 2.0)
    step(catalog, lease, "joined", [3, 3], 3.0)
    step(catalog, lease, "sums", [3, 3], 5.0, cold=True)
    assert gather(catalog, JOIN) == 3
    assert gather(catalog, JOIN) == 0
    gather(catalog, SUMS)
    samples = {(each.part, each.rows, each.seconds) for each in catalog.cost_samples("joined", "propagate")}
    assert samples == {(0, 10, 1.0), (1, 5, 2.0), (TOGETHER, 31, 3.0)}
    (several,) = catalog.cost_samples("joined", "propagate", TOGETHER)
    assert several.by_part is not None
    assert (len(several.by_part), sum(several.by_part)) == (2, 31)
    assert all(several.by_part)
    (one,) = catalog.cost_samples("sums", "propagate")
    assert (one.part, one.rows, one.cold) == (0, 46, True)


def test_what_parts_share_is_learned_from_the_steps_that_the_catalog_keeps(catalog: Catalog, lease: Lease) -> None:
    alone = [CostRecord("joined", "propagate", part, 10, 4.0, False, 1) for part in (0, 1) for _ in range(5)]
    several = [CostRecord("joined", "propagate", TOGETHER, 20, 5.0, False, 2, by_part=(10, 10)) for _ in range(3)]
    catalog.add_cost_samples([*alone, *several])
    assert measure_of(catalog, JOIN).costs.joint.shared == pytest.approx(3.0)
    assert measure_of(catalog, JOIN).costs.expected((10, 10), 0) == pytest.approx(5.0)


def test_a_step_without_changes_or_without_a_time_is_no_sample(catalog: Catalog, lease: Lease) -> None:
    begun = catalog.begin_step(lease, "joined", "propagate", {"before": [0, 0], "after": [1, 0]})
    times = [LeafTime(LeafId(0), Csn(1), Csn(1))]
    catalog.finish_propagate(lease, begun.step_id, times, outcome={"rows": 3})
    step(catalog, lease, "joined", [1, 1], 1.0)
    assert gather(catalog, JOIN) == 0


def test_an_apply_is_a_sample_by_the_rows_that_the_view_did_not_show(catalog: Catalog, lease: Lease) -> None:
    step(catalog, lease, "joined", [3, 3], 3.0)
    begun = catalog.begin_step(lease, "joined", "apply", {"from": 0, "to": 3})
    catalog.finish_apply(
        lease, begun.step_id, csn=Csn(3), version=1, outcome={"rows": 1, "seconds": 2.0, "cold": False}
    )
    gather(catalog, catalog.view("joined"))
    (applied,) = catalog.cost_samples("joined", "apply")
    assert (applied.rows, applied.seconds) == (46, 2.0)


def test_a_bound_below_the_floor_is_refused_with_its_reason(catalog: Catalog, lease: Lease) -> None:
    require_feasible(catalog, ServiceLevel(response_time=0.001), None, "new")  # nothing was measured
    step(catalog, lease, "joined", [1, 1], 3.0)
    gather(catalog, JOIN)
    catalog.add_cost_samples(
        [CostRecord("joined", "apply", 0, 1, 2.0, False, 0), CostRecord(LAKE, "capture", 0, 1, 1.0, False, 0)]
    )
    floor = measure_of(catalog, JOIN).costs.floor()
    assert floor is not None
    assert floor.seconds == pytest.approx(6.0)
    require_feasible(catalog, ServiceLevel(response_time=7), JOIN, "joined")
    with pytest.raises(
        ResponseTimeTooShort, match=r"floor is 6\.0 s .*capture 1\.0 s \+ propagate 3\.0 s \+ apply 2\.0 s"
    ):
        require_feasible(catalog, ServiceLevel(response_time=5), JOIN, "joined")
    with pytest.raises(ResponseTimeTooShort, match="the quickest of this lake"):
        require_feasible(catalog, ServiceLevel(response_time=5), None, "new")
    require_feasible(catalog, ServiceLevel(max_staleness=1), JOIN, "joined")


def test_views_below_are_part_of_what_a_refresh_takes(catalog: Catalog, lease: Lease) -> None:
    assert costs_below(catalog, ABOVE).expected == 0.0  # nothing is known of it
    step(catalog, lease, "joined", [1, 1], 3.0)
    step(catalog, lease, "joined", [1, 2], 2.0)
    gather(catalog, JOIN)
    assert costs_below(catalog, ABOVE).expected == pytest.approx(3.0 + 2.0)
    assert costs_below(catalog, JOIN).expected == 0.0
    catalog.add_cost_samples(
        [CostRecord("joined", "propagate", 0, 1, 8.0, False, 0), CostRecord("above", "propagate", 0, 1, 2.0, False, 0)]
    )
    with pytest.raises(ResponseTimeTooShort, match=r"\+ the views that it reads"):
        require_feasible(catalog, ServiceLevel(response_time=5), ABOVE, "above")


def test_commits_from_before_a_table_was_begun_anew_are_not_counted(catalog: Catalog, lease: Lease) -> None:
    """Their versions are of another table; to note their rows raised, and the service saw no view any more."""
    asked: list[list[int]] = []

    class Source:
        def changed_rows(self, name: str, location: str, versions: list[int]) -> dict[int, int]:
            asked.append(versions)
            return dict.fromkeys(versions, 7)

    before = [unit.csn for unit in catalog.units("r", Csn(0), catalog.newest_csn()) if unit.rows is None]
    assert before
    since = catalog.restart_base_table(lease, replace(catalog.base_table("r"), since_version=90)).since_csn
    nothing = cast(Any, None)
    context = Context(catalog, nothing, cast(Any, Source()), "/", lambda: 0)
    count_rows(context, "r", Interval(Csn(0), since))
    assert asked == [[90]]
    rows = {unit.csn: unit.rows for unit in catalog.units("r", Csn(0), since)}
    assert rows[since] == 7
    assert all(rows[csn] is None for csn in before)
