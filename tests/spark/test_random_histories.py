"""Random histories through the public API: the law of DESIGN 2 at every csn, and every refresh against Spark itself.

``make soak`` runs HEADWATER_SPARK_HISTORIES of them (40), from HEADWATER_SPARK_SEED (0) on; a failure prints its
seed and its story, and HEADWATER_SPARK_SEED=<seed> HEADWATER_SPARK_HISTORIES=1 repeats it.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable

import pytest

from headwater.durable import DurablePoint
from tests.spark.histories import COLUMNS, NAMES, Texts, commit, rows
from tests.spark.oracle import WAYS, World

FIRST = int(os.environ.get("HEADWATER_SPARK_SEED", "0"))
HISTORIES = int(os.environ.get("HEADWATER_SPARK_HISTORIES", "40"))


class History:
    """One seed's story."""

    def __init__(self, seed: int, make_world: Callable[..., World], *, leaves: int, commits: int) -> None:
        self.rng = random.Random(seed)
        self.story: list[str] = [f"seed {seed}"]
        self.commits = commits
        self.leaves = leaves
        self.world = make_world(f"history{seed}", on_durable_point=self.meanwhile)
        self.between = False
        self.meanwhiles = 0

    def meanwhile(self, point: DurablePoint) -> None:
        """Writers do not wait for drivers: now and then a commit lands in the midst of one.

        Not for ever: a driver that always finds more to do never comes to an end.
        """
        if (
            self.between
            and self.meanwhiles < self.commits
            and point.name.startswith(("ROLLING", "PROPAGATE", "CAPTURE_LOOKED"))
            and self.rng.random() < 0.1
        ):
            self.between = False
            self.meanwhiles += 1
            self.story.append(f"  during {point.name}: {commit(self.rng, self.world)}")
            self.between = True

    def run(self) -> None:
        try:
            self.setting()
            self.events()
            self.ending()
        except Exception as error:
            story = "\n".join(self.story)
            raise AssertionError(f"{type(error).__name__}: {error}\n{story}") from error

    def setting(self) -> None:
        rng, world = self.rng, self.world
        names = NAMES[: rng.choice([2, 3]) if self.leaves > 2 else 2]
        self.method = rng.choice(["frontier", "frontier", "rolling"])
        for name in names:
            mode = "live" if self.method == "rolling" and rng.random() < 0.3 else "versioned"
            world.make(name, COLUMNS, rows(rng, 6), mode=mode)
        world.look()
        texts = Texts(rng, names, self.leaves)
        sql = texts.query()
        settings = [f"method='{self.method}'"]
        settings += [
            f"'width.{alias}'='{rng.choice(['1 csn', '2 csns', '1 row', '3 rows'])}'"
            for alias in texts.aliases
            if rng.random() < 0.5
        ]
        self.story.append(f"{settings} {sql}")
        world.create("v", sql, f"OPTIONS ({', '.join(settings)})")
        world.check("v", label="created")

    def events(self) -> None:
        rng, world = self.rng, self.world
        done = 0
        while done < self.commits:
            for _ in range(rng.randint(1, 3)):
                self.story.append(commit(rng, world))
                done += 1
            self.between = True
            event = rng.random()
            if event < 0.4:
                self.refresh(None)
            elif event < 0.7:
                newest = world.lake.capture()
                to = rng.randint(world.kept_from("v"), newest)
                self.story.append(f"propagate to {to} of {newest}")
                assert world.lake.propagate("v", to=to) >= to
            if event < 0.2 or event > 0.6:
                newest = world.lake.capture()
                self.refresh(rng.randint(world.kept_from("v"), newest))
            if rng.random() < 0.15:
                leaf = rng.choice(world.lake.explain("v").leaves)["alias"]
                width = rng.choice([{}, {"csns": 1}, {"rows": 2}])
                self.story.append(f"width of {leaf}: {width}")
                world.lake.set_width("v", leaf, **width)
            self.between = False

    def refresh(self, to: int | None) -> None:
        before = self.world.view_csn("v")
        self.world.lake._context.sizes = WAYS[len(self.story) % len(WAYS)]
        self.story.append(f"refresh from {before} to {to}")
        report = self.world.refresh("v", to)
        self.story.append(f"  {report}")
        assert report.mode in ("incremental", "none"), report
        assert report.from_csn == before
        if to is not None:
            assert report.csn == to

    def ending(self) -> None:
        world = self.world
        newest = world.lake.capture()
        assert world.lake.propagate("v") >= newest
        assert world.mark("v") >= newest
        self.story.append(f"the law up to {world.mark('v')}")
        world.check_law("v")
        self.refresh(world.kept_from("v"))
        self.refresh(None)
        assert world.view_csn("v") >= newest


@pytest.mark.parametrize(
    ("seed", "leaves"),
    [
        (1002, 3),
        (1003, 2),
        *(pytest.param(seed, leaves, marks=pytest.mark.heavy) for seed, leaves in [(1001, 2), (1004, 4)]),
    ],
)
def test_short_history(seed: int, leaves: int, make_world: Callable[..., World]) -> None:
    History(seed, make_world, leaves=leaves, commits=5).run()


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(FIRST, FIRST + HISTORIES))
def test_history(seed: int, make_world: Callable[..., World]) -> None:
    rng = random.Random(-seed - 1)
    History(seed, make_world, leaves=rng.randint(2, 5), commits=rng.randint(6, 12)).run()
