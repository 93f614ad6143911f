"""What is promised of a table's rows: keys and foreign keys, and over which csns a promise is known to hold.

A constraint is a statement about **one state**. SQL's own reading of NULL is kept:

- ``Unique``: no two rows agree in all its columns; a row with a NULL among them is no row's double. A *primary* key
  says besides that no row has a NULL there.
- ``ForeignKey``: for every row without a NULL in its columns there is a row of the referred table with these values in
  its key. The referred columns are a declared key of that table, and each has the type of the column that refers to
  it: values that are equal only after a cast (``'01' = 1``) would let one row refer to two keys.

Nothing enforces a constraint on a Delta table, so none is used because it was declared. What is used is a ``Holding``:
the constraint holds at **every csn** from ``span.start`` to ``span.end``, both included. It is found by looking at a
whole state once and from there on at changes alone (``headwater.sql.verification``,
``headwater.algebra.violations``), and ``extended`` and ``broken_at`` say how such knowledge grows and ends.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from headwater.algebra.time import Csn, Interval


@dataclass(frozen=True, slots=True)
class Unique:
    """``UNIQUE (columns)``, or ``PRIMARY KEY (columns)``."""

    table: str
    columns: tuple[str, ...]
    primary: bool = False

    def __post_init__(self) -> None:
        _require_distinct(self.columns)

    def __str__(self) -> str:
        return f"{self.table} {'PRIMARY KEY' if self.primary else 'UNIQUE'} ({', '.join(self.columns)})"

    @property
    def tables(self) -> frozenset[str]:
        return frozenset([self.table])


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """``FOREIGN KEY (columns) REFERENCES referred_table (referred_columns)``, position by position."""

    table: str
    columns: tuple[str, ...]
    referred_table: str
    referred_columns: tuple[str, ...]

    def __post_init__(self) -> None:
        _require_distinct(self.columns)
        _require_distinct(self.referred_columns)
        if len(self.columns) != len(self.referred_columns):
            raise ValueError(f"{self.columns} can't refer to {self.referred_columns}: their numbers differ")

    def __str__(self) -> str:
        return (
            f"{self.table} FOREIGN KEY ({', '.join(self.columns)}) "
            f"REFERENCES {self.referred_table} ({', '.join(self.referred_columns)})"
        )

    @property
    def tables(self) -> frozenset[str]:
        return frozenset([self.table, self.referred_table])

    def refers_to(self, key: Unique) -> bool:
        return key.table == self.referred_table and set(key.columns) == set(self.referred_columns)


Constraint: TypeAlias = Unique | ForeignKey


def _require_distinct(columns: tuple[str, ...]) -> None:
    if not columns or len(set(columns)) != len(columns):
        raise ValueError(f"a constraint names one column or more, each once, not {columns}")


def objection(
    constraint: Constraint, columns: Mapping[str, Mapping[str, str]], known: Collection[Constraint]
) -> str | None:
    """Why a constraint can't be declared, beside those ``known``; ``columns`` gives the types of each table's."""
    named = [(constraint.table, name) for name in constraint.columns]
    if isinstance(constraint, ForeignKey):
        named += [(constraint.referred_table, name) for name in constraint.referred_columns]
    for table, name in named:
        if table not in columns:
            return f"{table!r} is not a tracked table"
        if name not in columns[table]:
            return f"{table!r} has no column {name!r} (it has {', '.join(columns[table])})"
    match constraint:
        case Unique(primary=True, table=table):
            if any(isinstance(each, Unique) and each.primary and each.table == table for each in known):
                return f"{table!r} has a primary key already"
        case ForeignKey(table=table, referred_table=other):
            if not any(isinstance(each, Unique) and constraint.refers_to(each) for each in known):
                return f"({', '.join(constraint.referred_columns)}) is not a declared key of {other!r}"
            for own, referred in zip(constraint.columns, constraint.referred_columns, strict=True):
                kind, wanted = columns[table][own], columns[other][referred]
                if kind != wanted:
                    return f"{table}.{own} is {kind} and {other}.{referred} is {wanted}: they must be of one type"
    return None


@dataclass(frozen=True, slots=True)
class Holding:
    """The constraint holds at every csn t with ``span.start <= t <= span.end``."""

    constraint: Constraint
    span: Interval

    def covers(self, first: Csn, last: Csn) -> bool:
        return self.span.start <= first and last <= self.span.end


def extended(known: Interval | None, verified: Interval) -> Interval:
    """What is known after a state was verified at ``verified.start`` and the changes of the interval after it.

    Knowledge is one span. A verification that does not meet it starts a new one: the newer is what propagation needs.
    """
    if known is None or verified.start > known.end or verified.end < known.start:
        return verified
    return Interval(min(known.start, verified.start), max(known.end, verified.end))


def broken_at(known: Interval | None, csn: Csn) -> Interval | None:
    """What is still known once the constraint was found broken at a csn: the time before it."""
    if known is None or known.start >= csn:
        return None
    return Interval(known.start, min(known.end, Csn(csn - 1)))


@dataclass(frozen=True, slots=True)
class Knowledge:
    """All that is known to hold, and when."""

    holdings: tuple[Holding, ...] = ()

    @classmethod
    def of(cls, constraints: Iterable[Constraint], span: Interval) -> Knowledge:
        return cls(tuple(Holding(constraint, span) for constraint in constraints))

    @property
    def foreign_keys(self) -> tuple[ForeignKey, ...]:
        return tuple(each.constraint for each in self.holdings if isinstance(each.constraint, ForeignKey))

    def holds(self, constraint: Constraint, first: Csn, last: Csn) -> bool:
        """Whether it is known to hold at every csn from ``first`` to ``last``."""
        return any(each.constraint == constraint and each.covers(first, last) for each in self.holdings)

    def keys(self, table: str, first: Csn, last: Csn) -> tuple[tuple[str, ...], ...]:
        """The columns by which rows of the table are known to be told apart at every csn from first to last."""
        return tuple(
            each.constraint.columns
            for each in self.holdings
            if isinstance(each.constraint, Unique) and each.constraint.table == table and each.covers(first, last)
        )

    def is_key(self, table: str, columns: Collection[str], first: Csn, last: Csn) -> bool:
        """Whether the columns tell rows of the table apart at every csn from first to last."""
        return any(set(key) <= set(columns) for key in self.keys(table, first, last))
