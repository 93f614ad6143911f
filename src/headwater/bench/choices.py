"""How often the cost models choose right, against forced runs of every alternative.

Two choices are made by cost: whether a refresh goes by the changes or recomputes (``refresh = 'auto'``), and by which
strategy the change of a join is computed (``strategy = 'auto'``). For both there are twins of each view that differ in
that option alone, one for each alternative and one that chooses. After each round of changes all of them do the same
work in turns; the choice is read from the report of the one that chose, and is right if the twin that was forced to do
so took no longer than ``TOLERANCE`` times the fastest. The time of the one that chose is not looked at. The first
rounds, in which the models have nothing to learn from yet, count too, but for one in which Spark warms up.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.bench.report import Target, at_least, write
from headwater.bench.six_way import SIX_WAY, BaseChanges, RefreshFunctions, require_scale
from headwater.bench.tpch.queries import query
from headwater.bench.tpch.refresh import Kind, Round, require_fraction
from headwater.bench.tpch.tables import TABLES, load
from headwater.engine.session import describe_machine, local_session
from headwater.lake import Lake, connect
from headwater.values import RefreshReport

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCALE_FACTOR = 0.3
FRACTIONS = (0.001, 0.01, 0.1)
REPEATS = 2
PARTS = ("strategies", "policies")
TOLERANCE = 1.1
RIGHT = 0.875  # of the best system that publishes such a figure
QUERIES = (1, 3, 4, 5, 6, 10, 12, 14)
POLICIES = ("incremental", "full")
STRATEGIES = ("n-term", "tree", "recompute")
JOINS = {
    "two_way": "SELECT o_orderkey, o_orderdate, l_linenumber, l_extendedprice FROM orders "
    "JOIN lineitem ON l_orderkey = o_orderkey",
    "three_way": "SELECT c_name, o_orderkey, o_orderdate, l_linenumber, l_extendedprice FROM customer "
    "JOIN orders ON o_custkey = c_custkey JOIN lineitem ON l_orderkey = o_orderkey",
    "six_way": SIX_WAY,
}


@dataclass(frozen=True, slots=True)
class Chosen:
    """One choice, and the seconds of every alternative when it was forced."""

    choice: str
    view: str
    changes: str
    fraction: float
    chosen: str
    seconds: Mapping[str, float]
    expected: Mapping[str, float]

    @property
    def best(self) -> str:
        return min(self.seconds, key=lambda name: self.seconds[name])

    @property
    def excess(self) -> float:
        """How many times as long as the best one."""
        return self.seconds[self.chosen] / self.seconds[self.best]

    @property
    def right(self) -> bool:
        return self.excess <= TOLERANCE

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "best": self.best, "excess": round(self.excess, 3), "right": self.right}


def run(
    *,
    sf: float | None,
    json_path: Path | None,
    progress: Callable[[str], None],
    fractions: Sequence[float] = FRACTIONS,
    repeats: int = REPEATS,
    parts: Sequence[str] = PARTS,
) -> dict[str, Any]:
    scale_factor = SCALE_FACTOR if sf is None else sf
    require_scale(scale_factor)
    for fraction in fractions:
        require_fraction(fraction)
    spark = local_session("headwater-bench")
    measured = {"strategies": _strategies, "policies": _policies}
    chosen = [name for name in PARTS if name in parts]
    found = [each for name in chosen for each in measured[name](spark, scale_factor, fractions, repeats, progress)]
    options = "" if tuple(chosen) == PARTS else f" --parts {','.join(chosen)}"
    options += "" if tuple(fractions) == FRACTIONS else f" --fractions {','.join(f'{each:g}' for each in fractions)}"
    options += "" if repeats == REPEATS else f" --repeats {repeats}"
    report = {
        "benchmark": "choices",
        "command": f"headwater bench choices --sf {scale_factor:g}{options}",
        "machine": describe_machine(spark),
        "data": {"scale_factor": scale_factor, "fractions": list(fractions), "repeats": repeats},
        "tolerance": TOLERANCE,
        "choices": [each.as_dict() for each in found],
    }
    return write(json_path, report, targets(found))


def targets(found: Sequence[Chosen]) -> list[Target]:
    told = [at_least("choices that were right, of all", RIGHT, _share(found))]
    for choice in dict.fromkeys(each.choice for each in found):
        own = [each for each in found if each.choice == choice]
        told.append(at_least(f"choices of {choice} that were right, {len(own)} in all", RIGHT, _share(own)))
    return told


def _share(found: Sequence[Chosen]) -> float:
    return statistics.fmean(each.right for each in found) if found else 0.0


@contextmanager
def _lake(spark: SparkSession, scale_factor: float, progress: Callable[[str], None]) -> Iterator[tuple[Lake, Any]]:
    folder = Path(tempfile.mkdtemp(prefix="headwater-choices-"))
    try:
        places = load(spark, folder / "tables", scale_factor, progress)
        with connect(folder / "lake", spark=spark) as lake:
            for name in TABLES:
                lake.track(name, places[name])
            yield lake, places
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _strategies(
    spark: SparkSession,
    scale_factor: float,
    fractions: Sequence[float],
    repeats: int,
    progress: Callable[[str], None],
) -> list[Chosen]:
    """By which strategy the change of a join is computed: all tables change, and orders with their lines alone."""
    found = []
    with _lake(spark, scale_factor, progress) as (lake, places):
        for view, text in JOINS.items():
            for strategy in (*STRATEGIES, "auto"):
                progress(f"creating {view}, {strategy}")
                name = _twin(view, strategy)
                lake.sql(f"CREATE MATERIALIZED VIEW {name} OPTIONS (strategy = '{strategy}') AS\n{text}")
        kinds: list[tuple[str, type[Round]]] = [("all tables", BaseChanges), ("orders", RefreshFunctions)]
        rounds = [(kind, fraction) for fraction in sorted(fractions) for kind in kinds for _ in range(repeats)]
        for number, ((label, changes), fraction) in enumerate([rounds[0], *rounds]):
            progress(f"strategies, round {number} of {len(rounds)}: {fraction:.1%} of {label}")
            changes(spark, places, fraction / 2, seed=number + 1).write()
            csn = lake.capture()
            for view in JOINS:

                def propagate(way: str, view: str = view, csn: int = csn) -> None:
                    lake.propagate(_twin(view, way), csn)

                seconds = _in_turns(number, (*STRATEGIES, "auto"), propagate)
                block = (lake.explain(_twin(view, "auto")).last or {})["blocks"][0]
                chosen, expected = block["strategy"], block["expected_seconds"]
                seconds.pop("auto")
                if number:
                    found.append(Chosen("strategy", view, label, fraction, chosen, seconds, expected))
    return found


def _policies(
    spark: SparkSession,
    scale_factor: float,
    fractions: Sequence[float],
    repeats: int,
    progress: Callable[[str], None],
) -> list[Chosen]:
    """Whether a refresh goes by the changes, or recomputes."""
    found = []
    chosen = [query(number, scale_factor) for number in QUERIES]
    with _lake(spark, scale_factor, progress) as (lake, places):
        for each in chosen:
            for policy in (*POLICIES, "auto"):
                progress(f"creating {each.name}, {policy}")
                name = _twin(each.name, policy)
                lake.sql(f"CREATE MATERIALIZED VIEW {name} OPTIONS (refresh = '{policy}') AS\n{each.text}")
        rounds = [fraction for fraction in sorted(fractions) for _ in range(repeats)]
        for number, fraction in enumerate([rounds[0], *rounds]):
            progress(f"policies, round {number} of {len(rounds)}: {fraction:.1%}")
            Round(spark, places, fraction, seed=number + 1, kind=Kind.VALUES).write()
            csn = lake.capture()
            for each in chosen:
                reports: dict[str, RefreshReport] = {}

                def refresh(
                    way: str, name: str = each.name, csn: int = csn, told: dict[str, RefreshReport] = reports
                ) -> None:
                    told[way] = lake.refresh(_twin(name, way), to=csn)

                seconds = _in_turns(number, (*POLICIES, "auto"), refresh)
                seconds.pop("auto")
                auto = reports["auto"]
                if number and auto.mode in POLICIES:
                    expected = auto.alternatives or {}
                    found.append(Chosen("policy", each.name, "all tables", fraction, auto.mode, seconds, expected))
    return found


def _twin(view: str, way: str) -> str:
    return f"{view}_{way.replace('-', '_')}"


def _in_turns(turn: int, ways: Sequence[str], work: Callable[[str], object]) -> dict[str, float]:
    """What each way takes, each time another one first: who comes later finds what others have just read."""
    first = turn % len(ways)
    seconds = {}
    for way in [*ways[first:], *ways[:first]]:
        started = time.perf_counter()
        work(way)
        seconds[way] = round(time.perf_counter() - started, 3)
    return {way: seconds[way] for way in ways}
