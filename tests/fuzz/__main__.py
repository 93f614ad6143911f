"""``python -m tests.fuzz --minutes 30 --seed 7``: seeds from 7 on, each on its own lake, until time is up."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from headwater.engine.session import TINY_DATA, local_session
from tests.fuzz.campaign import Campaign, Settings
from tests.fuzz.grammar import FEATURES
from tests.fuzz.readings import Readings


def main() -> int:
    options = parse()
    unknown = (options.features | options.without) - set(FEATURES)
    if unknown:
        sys.exit(f"Unknown: {', '.join(sorted(unknown))}. There are {', '.join(FEATURES)}.")
    with tempfile.TemporaryDirectory(prefix="headwater-fuzz-lakes-") as folder:
        extra = {
            "spark.sql.shuffle.partitions": "2",
            "spark.driver.extraJavaOptions": "-XX:+UseSerialGC",
            "spark.sql.warehouse.dir": f"{folder}/warehouse",
            # Spark keeps the plans of the last 1000 queries for its UI, and in a long run they fill the memory.
            "spark.sql.ui.retainedExecutions": "5",
        }
        spark = local_session("headwater-fuzz", master="local[2]", memory="2g", extra=TINY_DATA | extra)
        settings = Settings(
            views=options.views,
            rounds=options.rounds,
            features=(options.features or frozenset(FEATURES)) - options.without,
            supported=options.supported,
            shrink_seconds=options.shrink_seconds,
            scripts=options.scripts,
        )
        campaign = Campaign(spark, Path(folder), settings, progress=say)
        readings = Readings(spark, progress=say)
        ends = time.monotonic() + 60 * options.minutes
        seed = options.seed
        try:
            while time.monotonic() < ends:
                (readings if options.readings else campaign).run(seed)
                seed += 1
        except KeyboardInterrupt:
            say("stopped")
        if options.readings:
            say(f"{readings.texts} texts, {len(readings.failures)} misread; refused: {dict(readings.refused)}")
        else:
            say(f"seeds {options.seed} to {seed - 1}: {campaign.summary}")
        spark.stop()
    return 1 if campaign.summary.failures or readings.failures else 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Random views over random histories.")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--readings", action="store_true", help="only whether texts are read right, over made-up rows")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--views", type=int, default=Settings.views, help="views on each lake")
    parser.add_argument("--rounds", type=int, default=Settings.rounds)
    parser.add_argument("--features", type=names, default=frozenset(), help=f"only these of {','.join(FEATURES)}")
    parser.add_argument("--without", type=names, default=frozenset(), help="all but these")
    parser.add_argument("--supported", type=names, default=frozenset(), help="reason codes that count as failures")
    parser.add_argument("--shrink-seconds", type=float, default=Settings.shrink_seconds, help="for each failure")
    parser.add_argument("--scripts", type=Path, default=Settings.scripts, help="where scripts of failures go")
    return parser.parse_args()


def names(text: str) -> frozenset[str]:
    return frozenset(each for each in text.split(",") if each)


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
