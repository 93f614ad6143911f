"""What goes to scripts loses nothing."""

from __future__ import annotations

import json
from datetime import date, datetime, timezone
from decimal import Decimal

import pytest

from headwater.cli.commands import _print_refresh, moment
from headwater.cli.output import duration, plain, shown
from headwater.values import RefreshReport


def test_values_as_json() -> None:
    values = [
        None,
        True,
        1,
        1.5,
        float("nan"),
        Decimal("1E+2"),
        date(2026, 1, 31),
        b"\x00\xff",
        {"a": [Decimal("0.10")]},
    ]
    assert json.loads(json.dumps(plain(values))) == [
        None,
        True,
        1,
        1.5,
        "nan",
        "100",
        "2026-01-31",
        "AP8=",
        {"a": ["0.10"]},
    ]
    assert plain(datetime(2026, 1, 31, 17, tzinfo=timezone.utc)) == "2026-01-31T17:00:00+00:00"


def test_cells() -> None:
    assert [shown(value) for value in (None, "x", 3, [1, None])] == ["NULL", "x", "3", "[1, null]"]


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.25, "0.2 s"), (75, "1 min 15 s"), (3 * 3600 + 120, "3 h 2 min"), (200_000, "2 d 7 h")]
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_a_moment_is_a_csn_when_all_digits() -> None:
    assert [moment(each) for each in (None, "12", "2026-01-31", "-3", "²")] == [None, 12, "2026-01-31", "-3", "²"]


def test_a_refresh_tells_what_each_way_was_expected_to_take(capsys: pytest.CaptureFixture[str]) -> None:
    report = RefreshReport("v", 1, 2, "full", "FULL_IS_CHEAPER", 5, 1.04, {"touched-keys": 3.26, "full": 0.94})
    _print_refresh(report)
    assert capsys.readouterr().out.splitlines() == [
        "v: csn 1 -> 2, full (FULL_IS_CHEAPER), 5 rows changed, 1.0 s",
        "  expected: touched-keys 3.3 s, full 0.9 s",
    ]
