"""Random texts, each as Spark reads it and as we do, both answered over made-up rows.

No table is written and nothing changes, so an hour has thousands of them. What is found is shrunk to a small text.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headwater.engine.second_reading import require_same_answer
from headwater.engine.spark import SparkEngine
from headwater.errors import UnsupportedSql
from headwater.sql.lower import lower
from headwater.sql.made_up import MadeUp, Pools
from headwater.sql.storage import over_relations
from tests.fuzz.campaign import BASE
from tests.fuzz.grammar import FEATURES, Views
from tests.fuzz.histories import TYPES
from tests.fuzz.queries import View

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TYPED = {name: [(column, TYPES[kind].lower()) for column, kind in columns] for name, columns in BASE.items()}
# Spark may answer these in several ways, or by arrays in several orders.
ORDERED = frozenset({"numbered", "topk"})


@dataclass
class Readings:
    spark: SparkSession
    progress: Callable[[str], None] = lambda _: None
    texts: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def run(self, seed: int) -> None:
        rng = random.Random(f"reading {seed}")
        view, _ = Views(rng, BASE, {}, frozenset(FEATURES) - ORDERED - {"view"}).view("v")
        if not self._is_accepted(view):
            return
        self.texts += 1
        problem = self._problem(view)
        if problem is None:
            return
        code = problem.partition(":")[0]
        if code not in ("MISREAD", "ERROR"):
            self.refused[code] += 1
            return
        small = self._shrunk(view, code)
        told = f"seed {seed}: {self._problem(small)}\n  {small.text()}"
        self.failures.append(told)
        self.progress(told)

    def _is_accepted(self, view: View) -> bool:
        try:
            rows = MadeUp(TYPED, view.text(), Pools())
            self.spark.sql(over_relations(view.text(), rows.relations)).schema  # noqa: B018 (analysed now)
        except Exception:  # noqa: BLE001 (whatever Spark says against it)
            return False
        return True

    def _problem(self, view: View) -> str | None:
        """Why a text is not read as Spark reads it; None if it is."""
        known = {name: tuple(column for column, _ in columns) for name, columns in TYPED.items()}
        try:
            lowered = lower(view.text(), known, functions=None)
            output = [(f"o{place}", "") for place in range(len(lowered.names))]  # no type is rounded
            engine = SparkEngine(lambda: self.spark)
            require_same_answer(engine, view.text(), lowered.plan, lowered.nodes, output, TYPED, ties=False)
        except UnsupportedSql as refusal:
            return f"{refusal.code}: {refusal}"
        except Exception as error:  # noqa: BLE001 (that is what is looked for)
            return f"ERROR: {type(error).__name__}: {error}"
        return None

    def _shrunk(self, view: View, code: str) -> View:
        while True:
            smaller = (each for each in view.smaller() if self._is_accepted(each))
            next_one = next((each for each in smaller if (self._problem(each) or "").startswith(code)), None)
            if next_one is None:
                return view
            view = next_one
