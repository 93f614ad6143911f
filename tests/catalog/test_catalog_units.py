from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.catalog.worlds import LEAVES, LINES, ORDERS, VIEW, commit, populate

from headwater.algebra.time import Csn, Interval
from headwater.catalog import Catalog, open_catalog
from headwater.errors import InternalError, InvalidInput, MomentBeforeHistory, MomentInFuture, NameTaken, UnknownName


def test_a_lake_begins_at_csn_0(catalog: Catalog) -> None:
    assert catalog.newest_csn() == 0
    assert catalog.units() == []
    assert catalog.csn_at_timestamp(10**15) == 0
    assert catalog.base_tables() == []


def test_units_are_numbered_densely_and_found_again(catalog: Catalog) -> None:
    with catalog.lease("capture") as lease:
        populate(catalog, lease)
        assert catalog.newest_csn() == 4
        assert catalog.number_units(lease, []) == []
        assert catalog.number_units(lease, [[commit("orders", 9, 6_000)], [commit("orders", 10, 7_000)]]) == [5, 6]
    assert [(row.csn, row.table, row.version) for row in catalog.units()] == [
        (1, "orders", 4),
        (2, "lineitem", 1),
        (2, "orders", 5),
        (3, "lineitem", 2),
        (4, "orders", 6),
        (5, "orders", 9),
        (6, "orders", 10),
    ]
    assert [row.csn for row in catalog.units("orders", start=Csn(1), end=Csn(5))] == [2, 4, 5]
    assert catalog.changed_csns("lineitem", Interval(Csn(1), Csn(3))) == [2, 3]
    assert catalog.changed_csns("lineitem", Interval(Csn(2), Csn(6))) == [3]
    assert catalog.versions_at(["orders", "lineitem"], Csn(0)) == {"orders": 3, "lineitem": 0}
    assert catalog.versions_at(["orders", "lineitem"], Csn(2)) == {"orders": 5, "lineitem": 1}
    assert catalog.version_at("lineitem", Csn(6)) == 2


def test_one_unit_of_work_is_one_moment(catalog: Catalog) -> None:
    with catalog.lease("capture") as lease:
        populate(catalog, lease)
    assert {row.committed_at for row in catalog.units(start=Csn(1), end=Csn(2))} == {3_001}
    assert catalog.csn_at_timestamp(3_000) == 1
    assert catalog.csn_at_timestamp(3_001) == 2


def test_timestamps_never_fall(catalog: Catalog) -> None:
    with catalog.lease("capture") as lease:
        populate(catalog, lease)
        catalog.number_units(lease, [[commit("orders", 7, 4_500)], [commit("orders", 8, 4_600)]])
        catalog.number_units(lease, [[commit("orders", 9, 10)], [commit("orders", 10, 9_000)]])
    assert [row.committed_at for row in catalog.units("orders")] == [2_000, 3_001, 5_000, 5_000, 5_000, 5_000, 9_000]
    assert catalog.csn_at_timestamp(1_999) == 0
    assert catalog.csn_at_timestamp(4_999) == 3
    assert catalog.csn_at_timestamp(5_000) == 7
    assert catalog.csn_at_timestamp(10**18) == 8
    with pytest.raises(InvalidInput):
        catalog.csn_at_timestamp(10**30)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.lists(st.integers(0, 30), max_size=5), max_size=5))
def test_timestamp_lookup_agrees_with_its_definition(rounds: list[list[int]]) -> None:
    """Whatever clocks said: csns at a moment are a prefix, and grow with it."""
    with tempfile.TemporaryDirectory() as directory:
        url = f"sqlite:///{Path(directory) / 'catalog.db'}"
        with open_catalog(url, clock=lambda: 0, create=True) as catalog, catalog.lease("capture") as lease:
            catalog.add_base_table(lease, LINES)
            moments: list[int] = []
            for batch in rounds:
                first = len(moments)
                units = [[commit("lineitem", first + k + 1, at)] for k, at in enumerate(batch)]
                assert catalog.number_units(lease, units) == list(range(first + 1, first + len(batch) + 1))
                for at in batch:
                    moments.append(max([at, *moments[-1:]]))
            for at in range(-1, 32):
                assert catalog.csn_at_timestamp(at) == sum(moment <= at for moment in moments)
            for csn in range(len(moments) + 1):
                assert catalog.version_at("lineitem", Csn(csn)) == csn


def test_a_version_is_numbered_once_and_in_order(catalog: Catalog) -> None:
    with catalog.lease("capture") as lease:
        populate(catalog, lease)
        for version in (3, 5, 6):
            with pytest.raises(InternalError, match=rf"Version {version} of 'orders' .* after version 6"):
                catalog.number_units(lease, [[commit("lineitem", 3, 1)], [commit("orders", version, 1)]])
        with pytest.raises(InternalError, match=r"Version 7 of 'orders' .* after version 8"):
            catalog.number_units(lease, [[commit("orders", 8, 1)], [commit("orders", 7, 1)]])
        with pytest.raises(InternalError, match="without commits"):
            catalog.number_units(lease, [[commit("orders", 7, 1)], []])
        with pytest.raises(UnknownName):
            catalog.number_units(lease, [[commit("orders", 7, 1)], [commit("nation", 1, 1)]])
        with pytest.raises(UnknownName):
            catalog.number_units(lease, [[commit("orders", 7, 1)]], captured={"nation": (1, 1)})
    assert catalog.newest_csn() == 4


def test_moments_outside_the_known(catalog: Catalog) -> None:
    with catalog.lease("capture") as lease:
        populate(catalog, lease)
        catalog.add_base_table(lease, replace(ORDERS, name="nation"))
    with pytest.raises(MomentInFuture, match=r"Csn 5 .* newest is 4"):
        catalog.version_at("orders", Csn(5))
    with pytest.raises(MomentBeforeHistory, match="'nation' is tracked since csn 4; csn 3"):
        catalog.versions_at(["orders", "nation"], Csn(3))


def test_captured_versions_problems_and_rows(catalog: Catalog) -> None:
    with catalog.lease("capture") as lease:
        populate(catalog, lease)
        assert (catalog.base_table("orders").captured_version, catalog.base_table("orders").captured_at) == (6, 5_000)
        problem = {"code": "HISTORY_LOST", "version": 7}
        catalog.number_units(lease, [], problems={"orders": problem, "lineitem": None})
        assert catalog.base_table("orders").problem == problem
        catalog.set_table_problem(lease, "orders", None)
        assert catalog.base_table("orders").problem is None
        with pytest.raises(UnknownName):
            catalog.set_table_problem(lease, "order", None)
    catalog.set_rows("orders", 5, 120)
    assert {row.table: row.rows for row in catalog.units(start=Csn(1), end=Csn(2))} == {"orders": 120, "lineitem": 9}
    with pytest.raises(InternalError):
        catalog.set_rows("orders", 77, 1)


def test_a_new_table_is_tracked_from_the_csn_after_the_units_numbered_with_it(catalog: Catalog) -> None:
    with catalog.lease("capture") as lease:
        catalog.add_base_table(lease, ORDERS)
        units = [[commit("orders", 4, 1)], [commit("orders", 5, 2)]]
        assert catalog.number_units(lease, units, new_table=replace(LINES, since_csn=Csn(77))) == [1, 2]
        stored = catalog.base_table("lineitem")
        assert stored == replace(LINES, since_csn=Csn(2))
        with pytest.raises(NameTaken):
            catalog.number_units(lease, [[commit("orders", 6, 3)]], new_table=LINES)
    assert catalog.newest_csn() == 2


def test_tables_come_back_as_they_were_given(catalog: Catalog) -> None:
    odd = replace(LINES, name="o\"r d'ers;--τ", columns=(("a b", "struct<x:int>"), ("ß", "string")), mode="live")
    with catalog.lease("capture") as lease:
        assert catalog.add_base_table(lease, odd) == odd
        assert catalog.add_base_table(lease, ORDERS) == ORDERS
        with pytest.raises(NameTaken):
            catalog.add_base_table(lease, odd)
    assert catalog.base_table(odd.name) == odd
    assert catalog.base_tables() == [odd, ORDERS]


def test_an_unknown_table_is_answered_with_the_names_that_look_alike(catalog: Catalog) -> None:
    with pytest.raises(UnknownName, match=r"no base table 'orders'.* no base table yet"):
        catalog.base_table("orders")
    with catalog.lease("capture") as lease:
        for name in ("region", "orders", "customer", "older", "nation"):
            catalog.add_base_table(lease, replace(ORDERS, name=name))
    with pytest.raises(UnknownName, match="Did you mean 'orders'") as caught:
        catalog.base_table("ORDRES")
    assert caught.value.fields["known"][0] == "orders"
    assert sorted(caught.value.fields["known"]) == ["customer", "nation", "older", "orders", "region"]
    with pytest.raises(UnknownName) as caught:
        catalog.base_table("zzz")
    assert "Did you mean" not in str(caught.value)
    assert caught.value.fields["known"] == ["customer", "nation", "older", "orders", "region"]


def test_a_table_is_removed_only_when_no_view_reads_it(catalog: Catalog) -> None:
    with catalog.lease("capture") as lease:
        populate(catalog, lease)
        with pytest.raises(InvalidInput, match="'orders' is read by totals"):
            catalog.remove_base_table(lease, "orders")
        catalog.begin_drop(lease, VIEW.view_id, {})
        catalog.remove_base_table(lease, "orders")
        with pytest.raises(UnknownName):
            catalog.base_table("orders")
        with pytest.raises(UnknownName):
            catalog.insert_view(lease, VIEW, LEAVES)


def test_a_name_tracked_again_is_a_new_table_and_no_csn_is_given_twice(catalog: Catalog) -> None:
    with catalog.lease("capture") as lease:
        populate(catalog, lease)
        catalog.begin_drop(lease, VIEW.view_id, {})
        catalog.remove_base_table(lease, "orders")
        assert catalog.newest_csn() == 4
        assert catalog.add_base_table(lease, replace(ORDERS, since_version=0)).since_csn == 4
        assert catalog.number_units(lease, [[commit("orders", 4, 6_000)]]) == [5]
    assert catalog.version_at("orders", Csn(4)) == 0
    assert catalog.version_at("orders", Csn(5)) == 4
    assert catalog.changed_csns("orders", Interval(Csn(0), Csn(5))) == [5]
    catalog.set_rows("orders", 4, 3)
    assert [row.rows for row in catalog.units("orders")] == [None, None, None, 3]


def test_a_restarted_table_breaks_history_at_a_csn_of_its_own_and_marks_its_views(catalog: Catalog) -> None:
    with catalog.lease("capture") as lease:
        populate(catalog, lease)
        catalog.set_table_problem(lease, "orders", {"code": "HISTORY_LOST"})
        catalog.insert_view(lease, replace(VIEW, name="apart", view_id="apart"), LEAVES[1:0])
        anew = replace(ORDERS, table_uuid="new", since_version=2, captured_version=2, captured_at=10)
        assert catalog.restart_base_table(lease, anew) == replace(anew, since_csn=Csn(5))
        assert catalog.base_table("orders") == replace(anew, since_csn=Csn(5))
        with pytest.raises(UnknownName):
            catalog.restart_base_table(lease, replace(anew, name="nation"))
        assert catalog.number_units(lease, [[commit("orders", 4, 6_000)]]) == [6]  # an older "orders" had a version 4
    problem = catalog.view("totals").problem
    assert problem is not None
    assert (problem["code"], problem["table"], problem["csn"]) == ("TABLE_RESYNCED", "orders", 5)
    assert catalog.view("apart").problem is None
    assert [(row.csn, row.version, row.committed_at) for row in catalog.units("orders", start=Csn(4))] == [
        (5, 2, 5_000),
        (6, 4, 6_000),
    ]
    assert [catalog.version_at("orders", Csn(csn)) for csn in (5, 6)] == [2, 4]
    with pytest.raises(MomentBeforeHistory):
        catalog.version_at("orders", Csn(4))
