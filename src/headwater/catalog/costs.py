"""What steps took: the samples from which cost functions are fitted.

A sample is a fact about a step, whoever writes it down, so no lease is needed; a step is sampled once. Old samples
make room for new ones: a cost function is about the tables as they are now.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import sqlalchemy as sa

from headwater.catalog import schema
from headwater.catalog.fencing import FencedTables
from headwater.catalog.records import CostKind, CostRecord, StepRecord

KEPT = 500  # of each part
_table = schema.cost_samples
_steps = schema.steps


class Costs(FencedTables):
    def add_cost_samples(self, samples: Sequence[CostRecord]) -> None:
        """Note measurements; one of a step that is noted already is passed over."""
        if not samples:
            return
        with self._database.write() as connection:
            steps = [sample.step_id for sample in samples if sample.step_id is not None]
            known = set(connection.execute(sa.select(_table.c.step_id).where(_table.c.step_id.in_(steps))).scalars())
            new = [sample for sample in samples if sample.step_id is None or sample.step_id not in known]
            if new:
                connection.execute(sa.insert(_table), [asdict(sample) for sample in new])
            for view_id, kind, part in sorted({(sample.view_id, sample.kind, sample.part) for sample in new}):
                _make_room(connection, view_id, kind, part)

    def cost_samples(
        self, view_id: str, kind: CostKind, part: int | None = None, *, limit: int | None = None
    ) -> list[CostRecord]:
        """Newest first."""
        wanted = (
            sa.select(_table)
            .where(_table.c.view_id == view_id, _table.c.kind == kind)
            .order_by(_table.c.sample_id.desc())
            .limit(limit)
        )
        if part is not None:
            wanted = wanted.where(_table.c.part == part)
        with self._database.read() as connection:
            return [_record(row) for row in connection.execute(wanted)]

    def newest_cost_sample(self, view_id: str, kind: CostKind) -> int | None:
        """Its number, by which one sees whether there are new ones."""
        wanted = sa.select(sa.func.max(_table.c.sample_id)).where(_table.c.view_id == view_id, _table.c.kind == kind)
        with self._database.read() as connection:
            return connection.execute(wanted).scalar()

    def cheapest_seconds(self, kind: CostKind) -> float | None:
        """The least that anything of this kind has taken in the lake; None before the first that is not cold."""
        wanted = sa.select(sa.func.min(_table.c.seconds)).where(_table.c.kind == kind, _table.c.cold.is_(False))
        with self._database.read() as connection:
            return connection.execute(wanted).scalar()

    def unsampled_steps(self, view_id: str) -> list[StepRecord]:
        """The finished steps of a view that began after the newest one sampled, oldest first."""
        newest = sa.select(sa.func.coalesce(sa.func.max(_table.c.step_id), 0)).where(_table.c.view_id == view_id)
        wanted = (
            sa.select(_steps)
            .where(_steps.c.view_id == view_id, _steps.c.state == "done", _steps.c.step_id > newest.scalar_subquery())
            .order_by(_steps.c.step_id)
        )
        with self._database.read() as connection:
            return [StepRecord(**row._asdict()) for row in connection.execute(wanted)]


def _make_room(connection: sa.Connection, view_id: str, kind: str, part: int) -> None:
    same = sa.and_(_table.c.view_id == view_id, _table.c.kind == kind, _table.c.part == part)
    oldest_kept = (
        sa.select(_table.c.sample_id).where(same).order_by(_table.c.sample_id.desc()).offset(KEPT - 1).limit(1)
    )
    found = connection.execute(oldest_kept).scalar()
    if found is not None:
        connection.execute(sa.delete(_table).where(same, _table.c.sample_id < found))


def _record(row: sa.Row[Any]) -> CostRecord:
    values = row._asdict()
    del values["sample_id"]
    by_part = values.pop("by_part")
    return CostRecord(**values, by_part=None if by_part is None else tuple(by_part))
