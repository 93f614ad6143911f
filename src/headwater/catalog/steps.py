"""Steps: what a driver intends, before it touches a Delta table, and that it is done, afterwards.

A step that is still ``intended`` when a driver starts was cut short by a crash: the driver replays it or recognises
its commit, and closes it. Step ids grow in the order in which steps begin and are never reused, so they serve as
versions of Delta's idempotent transactions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from headwater.algebra.time import Csn
from headwater.catalog import names, schema
from headwater.catalog.fencing import FencedTables, Held
from headwater.catalog.records import Driver, ExecutionRecord, JsonObject, Micros, StepRecord
from headwater.errors import InternalError

_steps = schema.steps
_executions = schema.executions


class Steps(FencedTables):
    def begin_step(self, lease: Held, view_id: str, driver: Driver, intent: JsonObject) -> StepRecord:
        with self._under(lease) as connection:
            if driver != "create":
                names.require_view(connection, view_id)
            return insert_step(connection, self._database.clock(), view_id, driver, intent)

    def open_steps(self, view_id: str | None = None, driver: Driver | None = None) -> list[StepRecord]:
        """The steps that were begun and not closed, oldest first."""
        wanted = sa.select(_steps).where(_steps.c.state == "intended").order_by(_steps.c.step_id)
        if view_id is not None:
            wanted = wanted.where(_steps.c.view_id == view_id)
        if driver is not None:
            wanted = wanted.where(_steps.c.driver == driver)
        with self._database.read() as connection:
            return [_step(row) for row in connection.execute(wanted)]

    def step(self, step_id: int) -> StepRecord:
        with self._database.read() as connection:
            return find_step(connection, step_id)

    def done_steps(self, view_id: str | None, driver: Driver, *, limit: int) -> list[StepRecord]:
        """The newest steps that were closed, of one view or of all, newest first."""
        done = sa.and_(_steps.c.driver == driver, _steps.c.state == "done")
        wanted = sa.select(_steps).where(done).order_by(_steps.c.step_id.desc()).limit(limit)
        if view_id is not None:
            wanted = wanted.where(_steps.c.view_id == view_id)
        with self._database.read() as connection:
            return [_step(row) for row in connection.execute(wanted)]

    def record_execution(
        self, lease: Held, step_id: int, ordinal: int, query: str, execution_time: Csn
    ) -> ExecutionRecord:
        """Remember when the ``ordinal``-th query of a step ran, so that a replay compensates for that moment.

        Saying the same again is harmless; saying otherwise is an error.
        """
        record = ExecutionRecord(step_id, ordinal, query, execution_time)
        with self._under(lease) as connection:
            require_open(connection, step_id)
            this = sa.and_(_executions.c.step_id == step_id, _executions.c.ordinal == ordinal)
            row = connection.execute(sa.select(_executions).where(this)).one_or_none()
            if row is None:
                values = {"query": query, "execution_time": execution_time}
                connection.execute(sa.insert(_executions).values(step_id=step_id, ordinal=ordinal, **values))
            elif _execution(row) != record:
                raise InternalError(
                    f"Query {ordinal} of step {step_id} is recorded at csn {row.execution_time}: {row.query}; "
                    f"it can't also have run at csn {execution_time}: {query}."
                )
        return record

    def executions(self, step_id: int) -> list[ExecutionRecord]:
        wanted = sa.select(_executions).where(_executions.c.step_id == step_id).order_by(_executions.c.ordinal)
        with self._database.read() as connection:
            return [_execution(row) for row in connection.execute(wanted)]

    def finish_step(self, lease: Held, step_id: int, outcome: JsonObject | None = None) -> None:
        """Close a step that changes nothing else in the catalog."""
        with self._under(lease) as connection:
            close_step(connection, self._database.clock(), step_id, ("propagate", "apply", "create", "drop"), outcome)


def insert_step(connection: sa.Connection, at: Micros, view_id: str, driver: Driver, intent: JsonObject) -> StepRecord:
    values = {"view_id": view_id, "driver": driver, "state": "intended", "intent": intent, "started_at": at}
    return _step(connection.execute(sa.insert(_steps).values(**values).returning(_steps)).one())


def find_step(connection: sa.Connection, step_id: int) -> StepRecord:
    row = connection.execute(sa.select(_steps).where(_steps.c.step_id == step_id)).one_or_none()
    if row is None:
        raise InternalError(f"There is no step {step_id}.")
    return _step(row)


def require_open(connection: sa.Connection, step_id: int) -> StepRecord:
    step = find_step(connection, step_id)
    if step.state != "intended":
        raise InternalError(f"Step {step_id} ({step.driver}) is already done.")
    return step


def close_step(
    connection: sa.Connection, at: Micros, step_id: int, drivers: Sequence[Driver], outcome: JsonObject | None
) -> StepRecord:
    step = require_open(connection, step_id)
    if step.driver not in drivers:
        raise InternalError(f"Step {step_id} belongs to {step.driver}, not to {' or '.join(drivers)}.")
    done = {"state": "done", "outcome": outcome, "finished_at": at}
    connection.execute(sa.update(_steps).where(_steps.c.step_id == step_id).values(**done))
    return step


def supersede_steps(connection: sa.Connection, at: Micros, view_id: str, by: int) -> None:
    """Close every other open step of the view: what it intended no longer follows from where the view stands."""
    still_open = sa.and_(_steps.c.view_id == view_id, _steps.c.state == "intended", _steps.c.step_id != by)
    done = {"state": "done", "outcome": {"superseded_by": by}, "finished_at": at}
    connection.execute(sa.update(_steps).where(still_open).values(**done))


def forget_steps(connection: sa.Connection, view_id: str, but: Driver) -> None:
    gone = sa.select(_steps.c.step_id).where(_steps.c.view_id == view_id, _steps.c.driver != but)
    connection.execute(sa.delete(_executions).where(_executions.c.step_id.in_(gone)))
    connection.execute(sa.delete(_steps).where(_steps.c.view_id == view_id, _steps.c.driver != but))


def _step(row: sa.Row[Any]) -> StepRecord:
    return StepRecord(**row._asdict())


def _execution(row: sa.Row[Any]) -> ExecutionRecord:
    return ExecutionRecord(row.step_id, row.ordinal, row.query, Csn(row.execution_time))
