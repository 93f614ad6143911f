"""Equality of two DataFrames as bags: same columns, same types, every row equally often, NULL equal to NULL."""

from __future__ import annotations

from typing import Any

SHOWN = 5
_COUNT = "__bag_count"


def assert_bag_equal(actual: Any, expected: Any, *, label: str = "") -> None:
    """Fails with a few of the rows that ``actual`` lacks or has too often.

    One pass: rows of ``actual`` count +1 and of ``expected`` −1, and every group must sum to zero. Grouping takes NULL
    as equal to NULL, as bags want it, and NaN to NaN and 0.0 to -0.0.
    """
    differences = bag_difference(actual, expected)
    if not differences:
        return
    title = f"{label}: " if label else ""
    lines = [f"{title}the bags differ"]
    for row in differences:
        count = row[_COUNT]
        content = ", ".join(f"{name}={row[i]!r}" for i, name in enumerate(row.__fields__[:-1]))
        lines.append(f"  {'surplus' if count > 0 else 'missing'} {abs(count)} x ({content})")
    if len(differences) >= SHOWN:
        lines.append("  and possibly more")
    raise AssertionError("\n".join(lines))


def bag_difference(actual: Any, expected: Any) -> list[Any]:
    """A few rows whose counts differ, of either kind; the last value is ``actual``'s count minus ``expected``'s."""
    from pyspark.sql import functions as sf

    assert_same_schema(actual, expected)
    # Positional names: a result may have two columns of one name.
    names = [f"_{i}" for i in range(len(actual.columns))]
    signed = (
        actual.toDF(*names).withColumn(_COUNT, sf.lit(1)).unionAll(expected.toDF(*names).withColumn(_COUNT, sf.lit(-1)))
    )
    grouped = signed.groupBy(*names).agg(sf.sum(_COUNT).alias(_COUNT)).where(f"{_COUNT} <> 0")
    named = grouped.toDF(*actual.columns, _COUNT)
    if not (rows := named.limit(SHOWN).collect()):
        return []
    # Only a failure pays for a second look, which shows the other kind of difference too.
    missing, surplus = named.where(f"{_COUNT} < 0"), named.where(f"{_COUNT} > 0")
    return [row for kind in (missing, surplus) for row in kind.limit(SHOWN).collect()] or rows


def assert_same_schema(actual: Any, expected: Any) -> None:
    """Same names and types in the same order; whether a column may be NULL is not part of a bag."""
    shapes = [[(f.name, f.dataType.simpleString()) for f in frame.schema.fields] for frame in (actual, expected)]
    if shapes[0] != shapes[1]:
        raise AssertionError(f"the schemas differ\n  actual   {shapes[0]}\n  expected {shapes[1]}")
