"""PostgreSQL's types as Spark's: one table.

Each row of ``TYPES`` says which Spark type stands for a PostgreSQL type and how a value's text becomes the Python value
that Arrow takes for it. The rule is: without loss, or not at all. A type that is not in the table is refused when its
table is described (``UnsupportedType``); a value that the Spark type can't hold (an infinite date, a NaN in a
numeric, an array of two dimensions) is refused when it comes (``Unrepresentable``, which the row's reader turns into
``ValueRefused`` with the names).

A user may *declare* a column's Spark type where the table has no answer: ``string`` stands for any type, as PostgreSQL
prints it, and ``decimal(p,s)`` for a numeric, with every value checked.

The texts are those of a session with the settings of ``connection.SETTINGS``, be they from the log or from a copy.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any, TypeAlias

Value: TypeAlias = Any
"""What Arrow takes for the column's type; None for NULL."""
Reader: TypeAlias = Callable[[str], Value]

MOST_DIGITS = 38


class Unrepresentable(ValueError):
    """A value that its Spark type can't hold; the text says why, without the value."""


class NoSuchMapping(ValueError):
    """A type that no Spark type stands for; the text says why."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """A built-in type by its name in pg_type."""

    name: str
    modifier: int = -1

    def __str__(self) -> str:
        if self.name != "numeric" or self.modifier < 0:
            return self.name
        return "numeric({},{})".format(*_numeric_shape(self.modifier))


@dataclass(frozen=True, slots=True)
class EnumType:
    name: str

    def __str__(self) -> str:
        return f"enum {self.name}"


@dataclass(frozen=True, slots=True)
class ArrayOf:
    element: PgType

    def __str__(self) -> str:
        return f"{self.element}[]"


@dataclass(frozen=True, slots=True)
class OtherType:
    """Composite, range, or of an extension: nothing that the table knows."""

    name: str

    def __str__(self) -> str:
        return self.name


PgType: TypeAlias = Scalar | EnumType | ArrayOf | OtherType
"""Domains are resolved to what they are made of."""


@dataclass(frozen=True, slots=True)
class Mapped:
    """A Spark type (as ``simpleString`` writes it) and the reader of its values."""

    spark_type: str
    read: Reader


@dataclass(frozen=True, slots=True)
class TypeRow:
    """One row of the table. ``spark_type`` is None where it depends on the modifier."""

    names: tuple[str, ...]
    spark_type: str | None
    read: Reader
    note: str = ""


def _boolean(text: str) -> bool:
    return text == "t"


def _bytes(text: str) -> bytes:
    if not text.startswith("\\x"):
        raise Unrepresentable("the bytes are not in hexadecimal form")
    return bytes.fromhex(text[2:])


def _no_infinity(text: str) -> None:
    if text.endswith("infinity"):
        raise Unrepresentable("it is infinite")
    if text.endswith(" BC"):
        raise Unrepresentable("it lies before the year 1")


def _date(text: str) -> date:
    _no_infinity(text)
    year, month, day = text.split("-")
    if len(year) > 4:
        raise Unrepresentable("it lies after the year 9999")
    return date(int(year), int(month), int(day))


def _timestamp(text: str) -> datetime:
    _no_infinity(text)
    day, _, clock = text.partition(" ")
    on = _date(day)
    time, _, fraction = clock.partition(".")
    hour, minute, second = time.split(":")
    # PostgreSQL prints 6 digits at most and leaves the last zeros out.
    return datetime(on.year, on.month, on.day, int(hour), int(minute), int(second), int(fraction.ljust(6, "0") or 0))


def _timestamp_utc(text: str) -> datetime:
    _no_infinity(text)
    if not text.endswith("+00"):
        raise Unrepresentable("it was not printed in UTC")
    return _timestamp(text[:-3]).replace(tzinfo=timezone.utc)


def _finite_decimal(text: str) -> Decimal:
    value = Decimal(text)
    if not value.is_finite():
        raise Unrepresentable("it is not a finite number" if value.is_infinite() else "it is NaN, not a number")
    return value


def _without_padding(text: str) -> str:
    return text.rstrip(" ")


_AS_PRINTED: Reader = str

TYPES: tuple[TypeRow, ...] = (
    TypeRow(("bool",), "boolean", _boolean),
    TypeRow(("int2",), "smallint", int),
    TypeRow(("int4",), "int", int),
    TypeRow(("int8",), "bigint", int),
    TypeRow(("oid",), "bigint", int),
    TypeRow(("float4",), "float", float, "NaN and the infinities too"),
    TypeRow(("float8",), "double", float, "NaN and the infinities too"),
    TypeRow(
        ("numeric",),
        None,
        _finite_decimal,
        "`numeric(p,s)` is `decimal(p,s)`, up to 38 digits; without a precision, or with more digits, declare "
        "`decimal(p,s)` or `string`; NaN and the infinities are refused",
    ),
    TypeRow(("text", "varchar", "name", "char"), "string", _AS_PRINTED, "`char` is the internal one-byte type"),
    TypeRow(("bpchar",), "string", _without_padding, "`char(n)`, without its padding, as PostgreSQL casts it to text"),
    TypeRow(("bytea",), "binary", _bytes),
    TypeRow(("date",), "date", _date, "years 1 to 9999; infinite dates are refused"),
    TypeRow(("timestamp",), "timestamp_ntz", _timestamp, "years 1 to 9999; infinite ones are refused"),
    TypeRow(("timestamptz",), "timestamp", _timestamp_utc, "years 1 to 9999; infinite ones are refused"),
    TypeRow(("time",), "string", _AS_PRINTED, "`HH:MM:SS[.ffffff]`, which sorts as the time does"),
    TypeRow(("timetz",), "string", _AS_PRINTED, "with its offset"),
    TypeRow(("interval",), "string", _AS_PRINTED, "ISO 8601; months, days and microseconds are three numbers, not one"),
    TypeRow(("uuid",), "string", _AS_PRINTED, "lower case with hyphens"),
    TypeRow(("json",), "string", _AS_PRINTED, "as it was written"),
    TypeRow(("jsonb",), "string", _AS_PRINTED, "as PostgreSQL prints it: keys in one fixed order"),
    TypeRow(("xml",), "string", _AS_PRINTED),
    TypeRow(("inet", "cidr", "macaddr", "macaddr8"), "string", _AS_PRINTED, "equality is kept, order is the text's"),
    TypeRow(("bit", "varbit"), "string", _AS_PRINTED, "a text of 0 and 1"),
)

_BY_NAME = {name: row for row in TYPES for name in row.names}
_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)")


def mapped(pg: PgType) -> Mapped:
    """The Spark type that stands for a PostgreSQL type, or ``NoSuchMapping``."""
    match pg:
        case Scalar("numeric", modifier):
            return Mapped(_numeric(modifier), _finite_decimal)
        case Scalar(name) if (row := _BY_NAME.get(name)) is not None and row.spark_type is not None:
            return Mapped(row.spark_type, row.read)
        case EnumType():
            return Mapped("string", _AS_PRINTED)
        case ArrayOf(element):
            inner = mapped(element)
            return Mapped(f"array<{inner.spark_type}>", array_reader(inner.read))
        case _:
            raise NoSuchMapping(f"there is no Spark type that holds every {pg}")


def declared(pg: PgType, spark_type: str) -> Mapped:
    """A Spark type of the user's choice, or ``NoSuchMapping``."""
    wanted = spark_type.strip().lower()
    if wanted == "string":
        return Mapped(wanted, _AS_PRINTED)
    if isinstance(pg, Scalar) and pg.name == "numeric" and (shape := _DECIMAL.fullmatch(wanted)):
        precision, scale = int(shape[1]), int(shape[2])
        if 0 < precision <= MOST_DIGITS and scale <= precision:
            return Mapped(f"decimal({precision},{scale})", _decimal_reader(precision, scale))
    raise NoSuchMapping(f"a column of type {pg} can't be declared {spark_type!r}")


def _numeric_shape(modifier: int) -> tuple[int, int]:
    """(precision, scale); since PostgreSQL 15 the scale may be negative or greater than the precision."""
    packed = modifier - 4
    return packed >> 16 & 0xFFFF, (packed & 0x7FF ^ 0x400) - 0x400


def _numeric(modifier: int) -> str:
    if modifier < 0:
        raise NoSuchMapping("a numeric without a precision holds more digits than any decimal of Spark")
    precision, scale = _numeric_shape(modifier)
    digits, places = max(precision - min(scale, 0), scale), max(scale, 0)
    if digits > MOST_DIGITS:
        raise NoSuchMapping(f"it has {digits} digits, and Spark's decimals at most {MOST_DIGITS}")
    return f"decimal({digits},{places})"


def _decimal_reader(precision: int, scale: int) -> Reader:
    def read(text: str) -> Decimal:
        value = _finite_decimal(text)
        # PostgreSQL prints a numeric with all its digits and never with an exponent.
        whole, _, fraction = text.lstrip("-").partition(".")
        if len(whole.lstrip("0")) > precision - scale or len(fraction.rstrip("0")) > scale:
            raise Unrepresentable(f"it does not fit decimal({precision},{scale}) without rounding")
        return value

    return read


def array_reader(read: Reader) -> Reader:
    """Of the text form of a one-dimensional array that begins at 1, its values read by ``read``."""

    def read_array(text: str) -> list[Value]:
        if text.startswith("["):
            raise Unrepresentable("the array does not begin at index 1")
        return [None if item is None else read(item) for item in _items(text)]

    return read_array


_ITEM = re.compile(r'"((?:[^"\\]|\\.)*)"|([^",{}]+)', re.DOTALL)


def _items(text: str) -> list[str | None]:
    if text == "{}":
        return []
    found: list[str | None] = []
    at = 1
    while True:
        if text.startswith("{", at):
            raise Unrepresentable("the array has more than one dimension")
        item = _ITEM.match(text, at)
        if item is None or item.end() >= len(text):
            raise Unrepresentable("the array can't be read")
        quoted, plain = item.groups()
        # Quotes tell the word NULL from no value.
        found.append(re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL) if quoted is not None else _unless_null(plain))
        at = item.end() + 1
        match text[item.end()]:
            case "}" if at == len(text):
                return found
            case ",":
                continue
            case _:
                raise Unrepresentable("the array can't be read")


def _unless_null(plain: str) -> str | None:
    return None if plain.upper() == "NULL" else plain
