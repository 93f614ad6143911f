"""A planted fault is found, and shrunk to what shows it: with a fake engine, and on a lake whose reads lose rows."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Sequence
from itertools import count, islice
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz.campaign import BASE, Campaign, Settings
from tests.fuzz.case import Case
from tests.fuzz.grammar import JOINS, Views
from tests.fuzz.histories import Histories, Insert
from tests.fuzz.queries import Join
from tests.fuzz.script import script
from tests.fuzz.shrink import Shrinker
from tests.fuzz.trial import Failure


def loses_inserts_below_outer_joins(cases: Sequence[Case]) -> list[Failure | None]:
    """A fake engine: wrong if a view has an outer join and a later round inserts a row with a NULL."""
    return [Failure("v", "rows", "missing", len(case.rounds)) if _is_wrong(case) else None for case in cases]


def _is_wrong(case: Case) -> bool:
    outer = [each for view in case.views for each in view.walk() if isinstance(each, Join) and each.kind == "LEFT JOIN"]
    inserts = [each for commits in case.rounds for each in commits if isinstance(each, Insert)]
    return bool(outer) and any("NULL" in row for each in inserts for row in each.rows)


def failing_cases() -> list[Case]:
    return list(islice(filter(_is_wrong, map(random_case, count())), 10))


def random_case(seed: int) -> Case:
    view, _ = Views(random.Random(seed), BASE, {}).view("v")
    histories = Histories(random.Random(seed))
    return Case(histories.contents(), (view,), histories.rounds(3))


def test_a_planted_fault_shrinks_to_one_join_and_one_row():
    for case in failing_cases():
        shrinker = Shrinker(loses_inserts_below_outer_joins, lambda _: True, seconds=60)
        small, failure = shrinker.shrink(case, Failure("v", "rows", "missing", 3))
        assert failure.kind == "rows"
        ((insert,),) = small.rounds
        assert isinstance(insert, Insert)
        assert len(insert.rows) == 1
        assert sum(len(each.rows) for each in small.contents) == 0
        assert small.views[0].size() <= 10, small.views[0].text()


def test_only_a_failure_of_the_same_kind_counts():
    case = failing_cases()[0]

    def other_failure_when_small(cases: Sequence[Case]) -> list[Failure | None]:
        kinds = ["rows" if len(each.rounds) == 3 else "mode" for each in cases]
        return [Failure("v", kind, "", len(each.rounds)) for kind, each in zip(kinds, cases, strict=True)]

    small, failure = Shrinker(other_failure_when_small, lambda _: True, seconds=60).shrink(
        case, Failure("v", "rows", "", 3)
    )
    assert (len(small.rounds), failure.kind) == (3, "rows")


def test_views_that_spark_does_not_take_are_left_out():
    case = failing_cases()[0]
    shrinker = Shrinker(loses_inserts_below_outer_joins, lambda each: each.views == case.views, seconds=60)
    small, _ = shrinker.shrink(case, Failure("v", "rows", "missing", 3))
    assert small.views == case.views
    assert len(small.rounds) == 1


def test_time_is_limited():
    ticks = count()
    shrinker = Shrinker(loses_inserts_below_outer_joins, lambda _: True, seconds=5, clock=lambda: next(ticks))
    case = failing_cases()[0]
    small, _ = shrinker.shrink(case, Failure("v", "rows", "missing", 3))
    assert case.size() > small.size() > 12


def test_the_script_is_python():
    for case in failing_cases():
        text = script(case, Failure("v", "rows", "", 3, 1), "A title.")
        compile(text, "script.py", "exec")
        assert case.views[0].text() in text


def reads_without_nulls(lake: Any, view: str, at: int | None) -> Any:
    frame = lake.read(view) if at is None else lake.read(view, at=at)
    return frame.where("o1 IS NOT NULL")


@pytest.mark.heavy
def test_a_lake_that_loses_rows_is_found_and_told(spark: Any, tmp_path: Path):
    settings = Settings(
        views=2, rounds=1, features=JOINS, shrink_seconds=60, scripts=tmp_path / "scripts", read=reads_without_nulls
    )
    campaign = Campaign(spark, tmp_path, settings)
    told = next(found for seed in count() if (found := campaign.run(seed)))
    assert "rows" in told[0]
    assert "missing" in told[0]
    saved = sorted(settings.scripts.iterdir())
    assert len(saved) == len(told)
    # The engine itself is right: only this test's reads lose rows.
    ran = subprocess.run([sys.executable, str(saved[0])], capture_output=True, text=True, timeout=300, check=True)
    assert "as expected" in ran.stdout
    assert "WRONG" not in ran.stdout
