"""Values of change messages as values of Spark's types: JSON in, one Python value out, or a refusal.

What a message does not hold exactly is refused rather than rounded: a number with a point for a whole one, a text that
is no date. A number is days since 1970 for a date and microseconds since 1970 for a time, as Debezium writes them with
``time.precision.mode=adaptive_time_microseconds``; decimals are numbers or texts (``decimal.handling.mode=string``).
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal, InvalidOperation
from typing import Any, TypeAlias

from headwater.errors import MalformedMessage, UnsupportedType

Read: TypeAlias = Callable[[Any], Any]

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_WHOLE = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


class _Wrong(ValueError):
    """What was expected instead."""


def row_reader(table: str, columns: Sequence[tuple[str, str]]) -> Callable[[Mapping[str, Any]], tuple[Any, ...]]:
    """From an image of a row to the row; the image must have all the columns."""
    readers = [(name, value_reader(table, name, kind), kind) for name, kind in columns]

    def read(image: Mapping[str, Any]) -> tuple[Any, ...]:
        row = []
        for name, convert, kind in readers:
            if name not in image:
                raise _malformed(table, name, kind, "it is not there")
            try:
                row.append(None if image[name] is None else convert(image[name]))
            except _Wrong as error:
                raise _malformed(table, name, kind, str(error)) from None
        return tuple(row)

    return read


def _malformed(table: str, name: str, kind: str, why: str) -> MalformedMessage:
    return MalformedMessage(
        f"A change message of {table} has no {kind} as column {name!r}: {why}.",
        table=table,
        remedy="Mend the message and deliver it again, or track the table with another type for the column.",
    )


def value_reader(table: str, name: str, kind: str) -> Read:
    if kind in _WHOLE:
        return _whole(_WHOLE[kind])
    if found := _DECIMAL.fullmatch(kind):
        return _decimal(int(found[1]), int(found[2]))
    if found := re.fullmatch(r"array<(.+)>", kind):
        inner = value_reader(table, name, found[1])
        return lambda value: [None if each is None else inner(each) for each in _of(list, value, "a list")]
    simple: dict[str, Read] = {
        "string": lambda value: _of(str, value, "a text"),
        "boolean": lambda value: _of(bool, value, "true or false"),
        "double": _double,
        "float": _double,
        "date": _date,
        "timestamp": _timestamp,
        "timestamp_ntz": lambda value: _timestamp(value).replace(tzinfo=None),
        "binary": _binary,
    }
    if kind not in simple:
        raise UnsupportedType(
            f"Column {name!r} of {table} is declared {kind!r}, which no change message holds.",
            table=table,
            remedy=f"Use {', '.join([*_WHOLE, 'decimal(p,s)', *simple, 'array<...>'])}.",
        )
    return simple[kind]


def _of(kind: type, value: Any, what: str) -> Any:
    if not isinstance(value, kind):
        raise _Wrong(f"a message should have {what} there")
    return value


def _whole(bits: int) -> Read:
    def read(value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise _Wrong("a message should have a whole number there")
        if not -(1 << bits - 1) <= value < 1 << bits - 1:
            raise _Wrong(f"it does not fit {bits} bits")
        return value

    return read


def _decimal(precision: int, scale: int) -> Read:
    def read(value: Any) -> Decimal:
        if isinstance(value, bool) or not isinstance(value, int | str | Decimal):
            raise _Wrong("a message should have a number, or a text that is one, there")
        try:
            number = Decimal(value)
        except InvalidOperation:
            raise _Wrong("it is no number") from None
        exponent = number.normalize().as_tuple().exponent if number.is_finite() else None
        if not isinstance(exponent, int):
            raise _Wrong("it is not finite")
        if -exponent > scale or number.adjusted() >= precision - scale:
            raise _Wrong("it does not fit without rounding")
        return number

    return read


def _double(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise _Wrong("a message should have a number there")
    return float(value)


def _date(value: Any) -> date:
    if isinstance(value, int) and not isinstance(value, bool):
        return (_EPOCH + timedelta(days=value)).date()
    try:
        return date.fromisoformat(_of(str, value, "days since 1970 or YYYY-MM-DD"))
    except ValueError:
        raise _Wrong("a message should have days since 1970 or YYYY-MM-DD there") from None


def _timestamp(value: Any) -> datetime:
    if isinstance(value, int) and not isinstance(value, bool):
        return _EPOCH + timedelta(microseconds=value)
    try:
        found = datetime.fromisoformat(_of(str, value, "microseconds since 1970 or a time").replace("Z", "+00:00"))
    except ValueError:
        raise _Wrong("a message should have microseconds since 1970 or an ISO 8601 time there") from None
    return found if found.tzinfo is not None else found.replace(tzinfo=timezone.utc)


def _binary(value: Any) -> bytes:
    try:
        return base64.b64decode(_of(str, value, "a text in base64"), validate=True)
    except ValueError:
        raise _Wrong("it is not base64") from None
