"""The statement that tells the fate of keys, run by SQLite, against its specification."""

from __future__ import annotations

import pytest

from headwater.algebra.time import Csn, Interval
from headwater.propagate.fates import Fate, by_fate
from headwater.sql.dialect import to_text
from headwater.sql.fates import fated_changes
from tests.sql.test_verification import Written, run
from tests.theory.keyed import COLUMNS, keyed_history


@pytest.mark.parametrize("seed", range(15))
def test_the_statement_tells_the_fates_of_the_specification(seed: int) -> None:
    history = keyed_history(seed)
    interval = Interval(Csn(seed % 3), history.now)
    for table in ("o", "c"):
        changes = Written(history).changes(table, COLUMNS[table], interval)
        if changes is None:
            continue
        found = run(to_text(fated_changes(changes, COLUMNS[table], ("k",))))
        told = {fate: [row[:-1] for row in found if row[-1] == fate.value] for fate in Fate}
        expected = by_fate(history.base_delta(table, interval), lambda row: row[:1])
        for fate in Fate:
            assert sorted(told[fate], key=repr) == sorted(((*r, n, c) for r, n, c in expected[fate]), key=repr)


@pytest.mark.parametrize("seed", range(15))
def test_without_net_effect_a_change_is_never_born_or_gone_that_is_not(seed: int) -> None:
    history = keyed_history(seed)
    interval = Interval(Csn(0), history.now)
    changes = Written(history).changes("o", COLUMNS["o"], interval)
    if changes is None:
        assert not len(history.base_delta("o", interval))
        return

    def keys(at: int) -> set[object]:
        return {row[0] for row, _, _ in history.state("o", Csn(at))}

    for row in run(to_text(fated_changes(changes, COLUMNS["o"], ("k",), net=False))):
        key, csn, fate = row[0], row[-2], row[-1]
        if fate == "born":
            assert key not in keys(interval.start)
        if fate == "gone":
            assert not any(key in keys(at) for at in range(csn, interval.end + 1))
