"""Rates are learned from loads and seconds."""

from __future__ import annotations

from random import Random

import pytest

from headwater.propagate.rates import BOUNDS, MEASURED, Load, Rates, fitted


def loads(random: Random, count: int) -> list[Load]:
    """Steps by changes and steps from scratch, of sizes from thousands to tens of millions of rows."""
    found = []
    for _ in range(count):
        rows = 10 ** random.uniform(3, 7.5)
        statements, relations = random.randint(1, 4), random.randint(2, 30)
        found.append(Load(rows, 0, statements, relations) if random.random() < 0.7 else Load(0, rows, 1, relations / 3))
    return found


@pytest.mark.parametrize("seed", range(5))
def test_rates_of_another_machine_are_found(seed: int) -> None:
    random = Random(seed)
    true = Rates(*(rate * 3 ** random.uniform(-1.5, 1.5) for rate in MEASURED.parts()))
    seen = [(load, true.seconds(load) * random.uniform(0.9, 1.1)) for load in loads(random, 60)]
    found = fitted(seen)
    for load, _ in seen:
        assert found.seconds(load) == pytest.approx(true.seconds(load), rel=0.25)


def test_without_steps_the_rates_are_those_that_were_measured() -> None:
    assert fitted([]).parts() == pytest.approx(MEASURED.parts())
    assert fitted([(Load(1, 0, 1, 2), 0.0)]).parts() == pytest.approx(MEASURED.parts())


def test_a_single_step_moves_the_rates_that_it_tells_of_alone() -> None:
    found = fitted([(Load(0, 0, 2, 0), 4 * MEASURED.statement)])
    assert MEASURED.statement < found.statement < 2 * MEASURED.statement
    assert (found.row, found.relation) == pytest.approx((MEASURED.row, MEASURED.relation))


def test_rates_stay_within_bounds() -> None:
    wild = fitted([(Load(1e6, 1e6, 3, 9), 1e9)] * 50)
    low, high = BOUNDS
    for rate, usual in zip(wild.parts(), MEASURED.parts(), strict=True):
        assert low * usual <= rate <= high * usual


def test_learned_rates_turn_a_choice() -> None:
    many, few = Load(2e6, 0, 1, 24), Load(0, 2e6, 1, 8)  # six terms over few rows against one over all
    assert MEASURED.seconds(few) < MEASURED.seconds(many)
    # On this machine relations are cheap and shuffles are not.
    seen = [(Load(rows, 0, 1, count), rows * 5e-7 + count * 0.02) for rows in (1e4, 1e6, 5e6) for count in (4, 16, 24)]
    seen += [(Load(0, rows, 1, 8), rows * 4e-6 + 0.16) for rows in (1e5, 1e6, 5e6)]
    learned = fitted(seen)
    assert learned.seconds(many) < learned.seconds(few)
