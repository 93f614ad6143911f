"""Which types compare as they group."""

from __future__ import annotations

import pytest

from headwater.engine.alike import alike

ALIKE = [
    ("int", "bigint"),
    ("tinyint", "decimal(10,2)"),
    ("bigint", "decimal(38,10)"),
    ("float", "double"),
    ("date", "timestamp"),
    ("date", "timestamp_ntz"),
    ("string", "string"),
]
DIFFERENT = [
    ("int", "string"),
    ("bigint", "double"),  # beyond 2^53 several whole numbers are one double
    ("int", "float"),
    ("decimal(38,18)", "decimal(38,0)"),  # 56 digits are cut to 38
    ("timestamp", "timestamp_ntz"),  # when clocks go forward, two local times are one
    ("date", "string"),
    ("boolean", "int"),
]


@pytest.mark.parametrize(("one", "other"), ALIKE)
def test_values_that_differ_compare_as_different(one: str, other: str) -> None:
    assert alike(one, other)
    assert alike(other, one)


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_values_that_differ_may_compare_as_equal(one: str, other: str) -> None:
    assert not alike(one, other)
    assert not alike(other, one)
