"""The timed Z-set: net effect, its identities [Salem00 §4, Definitions 4.1 and 4.2], and Lemmas 4.1 and 4.2."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headwater.algebra.time import Csn, Interval
from headwater.algebra.zset import Row, ZSet

rows = st.tuples(st.sampled_from((None, 0, 1)), st.sampled_from((None, "x", "y")))
csns = st.integers(1, 6).map(Csn)
zsets = st.lists(st.tuples(rows, st.sampled_from((-2, -1, 1, 2)), st.none() | csns), max_size=8).map(ZSet.of)
deltas = st.lists(st.tuples(rows, st.sampled_from((-1, 1)), csns), max_size=8).map(ZSet.of)


def first_is_0(row: Row) -> bool:
    return bool(row[0] == 0)


def first(row: Row) -> Row:
    return row[:1]


def product(left: ZSet, right: ZSet) -> ZSet:
    return ZSet.of((a + b, m * n, None) for a, m, _ in left for b, n, _ in right)


class TestNetEffect:
    def test_groups_by_row_and_forgets_csns(self) -> None:
        assert ZSet.of([((1,), 2, Csn(3)), ((1,), -1, Csn(4)), ((1,), 1, None)]).net_effect() == ZSet.of(
            [((1,), 2, None)]
        )

    def test_drops_zeros(self) -> None:
        assert ZSet.of([((1,), 1, Csn(3)), ((1,), -1, Csn(4))]).net_effect() == ZSet()

    def test_nulls_are_one_value(self) -> None:
        assert ZSet.of([((None,), 1, None), ((None,), 1, None)]).net_effect() == ZSet.of([((None,), 2, None)])

    def test_order_does_not_matter_even_among_mixed_types(self) -> None:
        entries = [((None,), 1, None), (("a",), 1, None), ((1,), 1, None)]
        assert ZSet.of(entries).net_effect() == ZSet.of(reversed(entries)).net_effect()


class TestIdentitiesOfSection4:
    @given(zsets)
    def test_idempotent(self, r: ZSet) -> None:
        assert r.net_effect().net_effect() == r.net_effect()

    @given(zsets, zsets)
    def test_union(self, r: ZSet, s: ZSet) -> None:
        expected = (r + s).net_effect()
        assert (r.net_effect() + s).net_effect() == expected
        assert (r + s.net_effect()).net_effect() == expected
        assert (r.net_effect() + s.net_effect()).net_effect() == expected

    @given(zsets, zsets)
    def test_product(self, r: ZSet, s: ZSet) -> None:
        assert product(r, s).net_effect() == product(r.net_effect(), s.net_effect()).net_effect()

    @given(zsets)
    def test_selection(self, r: ZSet) -> None:
        assert r.where(first_is_0).net_effect() == r.net_effect().where(first_is_0)

    @given(zsets)
    def test_projection_up_to_net_effect(self, r: ZSet) -> None:
        assert r.project(first).net_effect() == r.net_effect().project(first).net_effect()

    def test_projection_alone_is_not_net(self) -> None:
        """Printed is φ(π(R)) = π(φ(R)); a projection that makes rows equal shows that it needs the outer φ."""
        r = ZSet.of([((1, "x"), 1, None), ((1, "y"), 1, None)])
        assert r.project(first).net_effect() != r.net_effect().project(first)

    @given(zsets, zsets)
    def test_negation(self, r: ZSet, s: ZSet) -> None:
        assert (r - r).net_effect() == ZSet()
        assert (r - s).net_effect() == r.add(s.negate()).net_effect()
        assert r.negate().negate() == r


class TestSelection:
    def test_half_open(self) -> None:
        r = ZSet.of([((1,), 1, Csn(2)), ((1,), 1, Csn(3)), ((1,), 1, Csn(5))])
        assert [csn for _, _, csn in r.select(Interval(Csn(2), Csn(5)))] == [3, 5]

    def test_rows_without_a_csn_are_in_no_interval(self) -> None:
        assert ZSet.from_rows([(1,)]).select(Interval(Csn(0), Csn(9))) == ZSet()

    @given(deltas, st.integers(0, 6).map(Csn))
    def test_intervals_tile(self, r: ZSet, x: Csn) -> None:
        parts = r.select(Interval(Csn(0), x)) + r.select(Interval(x, Csn(6)))
        assert parts.consolidate() == r.consolidate()


class TestConsolidation:
    @given(zsets)
    def test_no_selection_can_tell_the_difference(self, r: ZSet) -> None:
        small = r.consolidate()
        assert small.net_effect() == r.net_effect()
        for a in range(7):
            for b in range(a, 7):
                between = Interval(Csn(a), Csn(b))
                assert small.select(between).net_effect() == r.select(between).net_effect()

    def test_keeps_what_cancels_only_at_different_csns(self) -> None:
        r = ZSet.of([((1,), 1, Csn(1)), ((1,), -1, Csn(2)), ((1,), 1, Csn(3)), ((1,), -1, Csn(3))])
        assert r.consolidate() == ZSet.of([((1,), 1, Csn(1)), ((1,), -1, Csn(2))])

    @given(zsets)
    def test_counts_is_the_net_effect_as_a_mapping(self, r: ZSet) -> None:
        assert r.counts() == {row: count for row, count, _ in r.net_effect()}
        assert r.untimed().counts() == r.counts()
        assert len(r.untimed()) == len(r)


def state(initial: ZSet, delta: ZSet, at: int) -> ZSet:
    return (initial + delta.select(Interval(Csn(0), Csn(at)))).net_effect()


def is_timed_delta(candidate: ZSet, initial: ZSet, delta: ZSet, start: int, end: int) -> bool:
    """[Salem00 Definition 4.2] for the table that begins as ``initial`` and changes by ``delta``."""
    return all(
        (candidate.select(Interval(Csn(a), Csn(b))) + state(initial, delta, a)).net_effect() == state(initial, delta, b)
        for a in range(start, end + 1)
        for b in range(a, end + 1)
    )


class TestTimedDeltaTables:
    @given(deltas, deltas, st.integers(0, 6))
    def test_lemma_4_1_split(self, initial: ZSet, delta: ZSet, x: int) -> None:
        assert is_timed_delta(delta, initial, delta, 0, 6)
        assert is_timed_delta(delta.select(Interval(Csn(0), Csn(x))), initial, delta, 0, x)
        assert is_timed_delta(delta.select(Interval(Csn(x), Csn(6))), initial, delta, x, 6)

    @given(deltas, deltas, st.integers(0, 6))
    def test_lemma_4_2_combine(self, initial: ZSet, delta: ZSet, x: int) -> None:
        earlier, later = delta.select(Interval(Csn(0), Csn(x))), delta.select(Interval(Csn(x), Csn(6)))
        assert is_timed_delta(later + earlier, initial, delta, 0, 6)

    def test_lemma_4_2_needs_timed_delta_tables(self) -> None:
        """Printed is "a delta table": one that is right at its end only does not combine into a timed one."""
        delta = ZSet.of([((1,), 1, Csn(1)), ((2,), 1, Csn(2))])
        untimely = ZSet.of([((1,), 1, Csn(2)), ((2,), 1, Csn(2))])
        assert state(ZSet(), untimely, 2) == state(ZSet(), delta, 2)
        assert not is_timed_delta(untimely, ZSet(), delta, 0, 6)
