"""How far a step goes: one width for each leaf [Salem00 §3.4]."""

from __future__ import annotations

import pytest

from headwater.algebra.time import Csn, Interval
from headwater.engine.reference import History
from headwater.errors import InternalError
from headwater.propagate.frontier import Frontier, advance
from headwater.propagate.width import (
    ByCsn,
    ByRows,
    Changing,
    Unlimited,
    Width,
    interval_end,
    next_targets,
    paired_end,
)
from tests.theory.worlds import Law, natural_join, random_world


def history(*sizes: dict[str, int]) -> History:
    """One csn for each argument, with that many changed rows of each table."""
    made = History()
    for size in sizes:
        made.commit({table: [((number, None), 1) for number in range(rows)] for table, rows in size.items()})
    return made


LOG = history({"a": 2}, {"b": 1}, {"a": 3}, {}, {"a": 1}, {"a": 1}, {"b": 5}, {})


@pytest.mark.parametrize(
    ("table", "start", "width", "end"),
    [
        ("a", 0, Unlimited(), 8),
        ("a", 0, ByCsn(1), 2),  # csn 2 did not change the table: free
        ("a", 0, ByCsn(2), 4),
        ("a", 0, ByCsn(4), 8),
        ("a", 0, ByCsn(9), 8),
        ("a", 1, ByCsn(1), 4),
        ("a", 0, ByRows(1), 2),  # one csn at least, though it has two rows
        ("a", 0, ByRows(4), 2),
        ("a", 0, ByRows(5), 4),
        ("a", 0, ByRows(6), 5),
        ("a", 0, ByRows(7), 8),
        ("a", 6, ByRows(1), 8),  # nothing changed: all the way
        ("b", 0, ByCsn(1), 6),
        ("b", 2, ByRows(3), 8),
        ("c", 0, ByRows(1), 8),
    ],
)
def test_interval_end(table: str, start: int, width: Width, end: int) -> None:
    assert interval_end(table, Interval(Csn(start), Csn(8)), width, LOG) == end


def test_never_past_the_target() -> None:
    assert interval_end("a", Interval(Csn(0), Csn(3)), ByCsn(2), LOG) == 3


def test_unlimited_leaves_advance_together() -> None:
    plan = natural_join("a", "b")
    targets = next_targets(plan, Frontier((Csn(1), Csn(5))), Csn(7), [Unlimited(), Unlimited()], LOG)
    assert targets == (7, 7)


def test_a_leaf_beyond_the_target_stays() -> None:
    plan = natural_join("a", "b")
    assert next_targets(plan, Frontier((Csn(1), Csn(5))), Csn(3), [Unlimited(), Unlimited()], LOG) == (3, 5)
    assert next_targets(plan, Frontier((Csn(4), Csn(5))), Csn(3), [ByCsn(1), Unlimited()], LOG) == (4, 5)


def test_otherwise_the_leaf_furthest_behind_advances_by_its_width() -> None:
    plan = natural_join("a", "b")
    widths: list[Width] = [ByCsn(1), Unlimited()]
    frontier = Frontier((Csn(0), Csn(0)))
    reached = []
    while frontier.high_water_mark < 8:
        frontier = Frontier(next_targets(plan, frontier, Csn(8), widths, LOG))
        reached.append(frontier.times)
    assert reached == [(2, 0), (2, 8), (4, 8), (5, 8), (8, 8)]


@pytest.mark.parametrize("seed", range(100))
def test_repeated_it_reaches_the_target_and_the_law_holds_all_the_way(seed: int) -> None:
    world = random_world(seed, passed=True)
    random = world.random
    widths = [
        random.choice((Unlimited(), ByCsn(random.randint(1, 3)), ByRows(random.randint(1, 4)))) for _ in world.tables()
    ]
    target = Csn(random.randint(0, world.last))
    law = Law(world, Csn(0))
    frontier = Frontier.at(world.plan, Csn(0))
    for _ in range(len(widths) * target + 1):
        targets = next_targets(world.plan, frontier, target, widths, world.history)
        assert all(now <= then <= target for now, then in zip(frontier.times, targets, strict=True))
        if targets == frontier.times:
            break
        step = advance(world.plan, frontier, targets, world.history)
        for query in step.queries:
            law.run(query)
        frontier = step.after
        law.check(frontier.high_water_mark)
    assert frontier == Frontier.at(world.plan, target)


@pytest.mark.parametrize("seed", range(50))
def test_no_interval_exceeds_its_width_by_more_than_one_csn_alone(seed: int) -> None:
    world = random_world(seed, passed=True)
    table = world.tables()[0]
    limit = world.random.randint(1, 4)
    start = Csn(0)
    while start < world.last:
        end = interval_end(table, Interval(start, world.last), ByRows(limit), world.history)
        sizes = [rows for _, rows in world.history.rows_by_csn(table, Interval(start, end))]
        assert sum(sizes) <= limit or len(sizes) == 1
        assert (
            end == world.last or sum(sizes) + world.history.rows_by_csn(table, Interval(end, world.last))[0][1] > limit
        )
        start = end


def test_widths_that_would_never_advance_are_refused() -> None:
    with pytest.raises(InternalError, match="0 csns"):
        ByCsn(0)
    with pytest.raises(InternalError, match="0 rows"):
        ByRows(0)


def test_leaves_frontier_and_widths_must_agree() -> None:
    with pytest.raises(InternalError, match="1 widths"):
        next_targets(natural_join("a", "b"), Frontier((Csn(0), Csn(0))), Csn(1), [Unlimited()], LOG)


def every(csns: int, first: int = 1, step: int = 1) -> list[tuple[Csn, int]]:
    """One row at each of so many csns."""
    return [(Csn(first + step * number), 1) for number in range(csns)]


def test_changes_of_few_keys_in_many_tables_are_paired_in_short_steps() -> None:
    """A five-way join over 2,500 csns of 40 keys once took one step, which paired 16 states of each with each."""
    leaves = [Changing(40, every(500, first, 5)) for first in range(1, 6)]
    starts, start = [], Csn(0)
    while start < 2_500:
        rest = [Changing(leaf.rows, [each for each in leaf.changed if each[0] > start]) for leaf in leaves]
        end = paired_end(rest, Csn(2_500), 200_000)
        assert end > start
        starts.append(start)
        start = end
    assert 2 < len(starts) < 10


def test_few_changes_of_large_tables_are_one_step() -> None:
    leaves = [Changing(6_000_000, [(Csn(csn), 600_000) for csn in range(1, 3)]) for _ in range(6)]
    assert paired_end(leaves, Csn(2), 200_000) == 2


def test_a_csn_is_never_split() -> None:
    leaves = [Changing(10, [(Csn(3), 1_000_000), (Csn(4), 1)]) for _ in range(3)]
    assert paired_end(leaves, Csn(9), 200_000) == 3


def test_one_table_is_paired_with_nothing_but_itself() -> None:
    assert paired_end([Changing(1, every(100_000))], Csn(100_000), 200_000) == 100_000


def test_changes_of_one_table_at_a_time_are_paired_with_nothing() -> None:
    """Ten thousand suppliers, updated fifteen times each, below a table of theirs that changed before."""
    large = Changing(800_000, [(Csn(csn), 20_000) for csn in range(1, 16)])
    small = Changing(10_000, [(Csn(csn), 20_000) for csn in range(16, 31)])
    assert paired_end([large, small], Csn(30), 200_000) == 19
    rest = Changing(800_000, [])
    assert paired_end([rest, Changing(10_000, small.changed[4:])], Csn(30), 200_000) == 30


def test_an_empty_table_has_no_keys_to_pair() -> None:
    assert paired_end([Changing(0, []), Changing(0, every(5))], Csn(5), 200_000) == 5
