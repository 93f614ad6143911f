"""A workload: tables, how many updates of which kinds, how they arrive, and a seed [Mauve98 §4].

A row is (key, value of each column, padding if asked for). Keys are unique in their table and never come back. The
paper's base tables have the tuple size of the Wisconsin benchmark but explicit values in the join attribute only:
here that is one column and ``padding``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from headwater.errors import InvalidInput
from headwater.genesis.arrivals import Stream, stream_as_json, stream_of_json
from headwater.genesis.distributions import Distribution, distribution_as_json, distribution_of_json

KEY = "key"
PADDING = "padding"


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    values: Distribution


@dataclass(frozen=True, slots=True)
class TableShape:
    """``rows`` at the beginning; ``padding`` characters of text fill a row up; ``share`` of the updates, by weight."""

    name: str
    rows: int
    columns: tuple[Column, ...]
    padding: int = 0
    share: float = 1.0

    def __post_init__(self) -> None:
        _require(self.rows >= 0 and self.padding >= 0, f"Table {self.name} has {self.rows} rows", "none below 0")
        _require(self.share >= 0, f"Table {self.name} has a share of {self.share}", "one that is not below 0")
        _require(
            len(set(self.column_names)) == len(self.column_names),
            f"Table {self.name} has the columns {', '.join(self.column_names)}",
            f"names that differ, and neither {KEY!r} nor {PADDING!r}",
        )

    @property
    def column_names(self) -> tuple[str, ...]:
        return (KEY, *(column.name for column in self.columns), *((PADDING,) if self.padding else ()))


@dataclass(frozen=True, slots=True)
class Mix:
    """Weights of the three kinds of update; only their ratios count."""

    insert: float
    delete: float
    update: float

    def __post_init__(self) -> None:
        weights = (self.insert, self.delete, self.update)
        _require(min(weights) >= 0 < sum(weights), f"A mix has the weights {weights}", "some, and none below 0")


@dataclass(frozen=True, slots=True)
class Workload:
    """``updates`` in transactions of ``transaction_size``; the last may be smaller.

    ``hot`` skews which rows are deleted and updated: 0.5 takes them all alike, 0.2 takes four of five from a fifth of
    the table [GSE+94's self-similar rule].
    """

    tables: tuple[TableShape, ...]
    updates: int
    mix: Mix
    stream: Stream
    transaction_size: int = 1
    hot: float = 0.5
    seed: int = 0

    def __post_init__(self) -> None:
        names = [table.name for table in self.tables]
        _require(bool(names) and len(set(names)) == len(names), f"A workload has the tables {names}", "some, by name")
        _require(sum(table.share for table in self.tables) > 0, "No table of a workload has a share", "at least one")
        _require(self.updates >= 0, f"A workload has {self.updates} updates", "a number not below 0")
        _require(self.transaction_size > 0, f"A transaction has {self.transaction_size} updates", "one or more")
        _require(0 < self.hot <= 0.5, f"A workload is hot in {self.hot} of a table", "a number in (0, 0.5]")

    def table(self, name: str) -> TableShape:
        for table in self.tables:
            if table.name == name:
                return table
        raise InvalidInput(
            f"The workload has no table {name!r}.",
            remedy=f"Choose among {', '.join(table.name for table in self.tables)}.",
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "tables": [
                asdict(table)
                | {"columns": [{"name": c.name, "values": distribution_as_json(c.values)} for c in table.columns]}
                for table in self.tables
            ],
            "updates": self.updates,
            "mix": asdict(self.mix),
            "stream": stream_as_json(self.stream),
            "transaction_size": self.transaction_size,
            "hot": self.hot,
            "seed": self.seed,
        }

    @classmethod
    def of_json(cls, found: Mapping[str, Any]) -> Workload:
        try:
            return cls(
                **{
                    **found,
                    "tables": tuple(
                        TableShape(
                            **{
                                **table,
                                "columns": tuple(
                                    Column(column["name"], distribution_of_json(column["values"]))
                                    for column in table["columns"]
                                ),
                            }
                        )
                        for table in found["tables"]
                    ),
                    "mix": Mix(**found["mix"]),
                    "stream": stream_of_json(found["stream"]),
                }
            )
        except (KeyError, TypeError, AttributeError) as problem:
            raise InvalidInput(
                f"This is not a workload: {problem}.", remedy="Compare it with Workload.as_json()."
            ) from problem


def _require(holds: bool, given: str, wanted: str) -> None:
    if not holds:
        raise InvalidInput(f"{given}, which can't be.", remedy=f"Give {wanted}.")
