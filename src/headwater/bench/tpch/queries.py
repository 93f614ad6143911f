"""The 22 queries of TPC-H as texts of views, with the validation parameters of the specification.

The texts are the standard ones, in the files beside this one. ORDER BY stands where a LIMIT needs it, and only there:
Q2, Q3, Q10, Q18 and Q21. Q15's view is a common table expression. The one parameter that depends on the amount of data
is the share in Q11.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from headwater.bench.tpch.tables import TABLES
from headwater.errors import InvalidInput

NUMBERS = tuple(range(1, 23))
_TEXTS = Path(__file__).with_name("sql")


@dataclass(frozen=True, slots=True)
class TpchQuery:
    number: int
    text: str

    @property
    def name(self) -> str:
        """The view's name: q01 to q22."""
        return f"q{self.number:02}"

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables that the text names."""
        return tuple(table for table in TABLES if re.search(rf"\b{table}\b", self.text))


def query(number: int, scale_factor: float) -> TpchQuery:
    if number not in NUMBERS:
        raise InvalidInput(f"TPC-H has no query {number}.", remedy="Give numbers from 1 to 22.")
    text = (_TEXTS / f"q{number:02}.sql").read_text().strip()
    return TpchQuery(number, text.format(fraction=f"{0.0001 / scale_factor:.10f}"))
