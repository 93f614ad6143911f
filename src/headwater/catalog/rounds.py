"""Rounds of capture that write: intended before a row is written, done in the transaction that numbers their units.

A mirror's log carries csns, so they must be known before its rows are written and valid only afterwards. A round's
intent gives them; nobody else numbers anything while a round is open, and until it is done no reader asks for a csn
beyond the newest. Round ids grow and are never used twice, so they serve as versions of Delta's idempotent
transactions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import sqlalchemy as sa

from headwater.algebra.time import Csn
from headwater.catalog import schema
from headwater.catalog.base_tables import newest_csn
from headwater.catalog.fencing import FencedTables, Held
from headwater.catalog.mirrors import insert_states, update_mirror, update_source
from headwater.catalog.records import Commit, JsonObject, Micros, MirrorState, RoundRecord
from headwater.catalog.units import append_units, move_tables
from headwater.errors import InternalError

_rounds = schema.rounds


@dataclass(frozen=True, slots=True)
class RoundOutcome:
    """What becomes true when a round is done, all at once."""

    units: Sequence[Sequence[Commit]]
    captured: Mapping[str, tuple[int, Micros]] = field(default_factory=dict)
    problems: Mapping[str, JsonObject | None] = field(default_factory=dict)
    positions: Mapping[str, JsonObject] = field(default_factory=dict)
    states: Sequence[MirrorState] = ()
    settings: Mapping[str, JsonObject] = field(default_factory=dict)
    copied: Mapping[str, tuple[JsonObject, str | None]] = field(default_factory=dict)
    """Mirrors that were copied anew: how their tables look now, and which transactions the copies held."""


class Rounds(FencedTables):
    def begin_round(self, lease: Held, intent: JsonObject) -> RoundRecord:
        """``intent`` has the csn of its first unit, which must be the next."""
        with self._under(lease) as connection:
            if self._open(connection) is not None:
                raise InternalError("A round of capture begins while another is open.")
            if intent["first"] != newest_csn(connection) + 1:
                raise InternalError(f"A round begins at csn {intent['first']}, the newest is {newest_csn(connection)}.")
            values = {"state": "intended", "intent": intent, "started_at": self._database.clock()}
            made = connection.execute(sa.insert(_rounds).values(**values).returning(_rounds.c.round_id)).scalar_one()
            return RoundRecord(made, intent)

    def open_round(self) -> RoundRecord | None:
        with self._database.read() as connection:
            return self._open(connection)

    def finish_round(self, lease: Held, round_id: int, outcome: RoundOutcome) -> list[Csn]:
        """Number the units, move tables and sources, and close the round."""
        with self._under(lease) as connection:
            numbered = append_units(connection, outcome.units)
            move_tables(connection, outcome.captured, outcome.problems)
            for source_id, position in outcome.positions.items():
                update_source(connection, source_id, position=position)
            for source_id, settings in outcome.settings.items():
                update_source(connection, source_id, settings=settings)
            for name, (described, copied) in outcome.copied.items():
                update_mirror(connection, name, described=described, copied=copied)
            insert_states(connection, list(outcome.states))
            self._close(connection, round_id, "done")
            return numbered

    def abandon_round(self, lease: Held, round_id: int) -> None:
        """Give up a round of which nothing is left in the lake."""
        with self._under(lease) as connection:
            self._close(connection, round_id, "abandoned")

    def move_sources(
        self, lease: Held, positions: Mapping[str, JsonObject], problems: Mapping[str, JsonObject | None]
    ) -> None:
        """Note how far sources were read, and what is wrong with tables, where nothing was to be numbered."""
        with self._under(lease) as connection:
            move_tables(connection, {}, problems)
            for source_id, position in positions.items():
                update_source(connection, source_id, position=position)

    def _open(self, connection: sa.Connection) -> RoundRecord | None:
        row = connection.execute(sa.select(_rounds).where(_rounds.c.state == "intended")).one_or_none()
        return None if row is None else RoundRecord(row.round_id, row.intent)

    def _close(self, connection: sa.Connection, round_id: int, state: str) -> None:
        # The intent lists every unit of the round: it is of no use any more.
        values = {"state": state, "intent": None, "finished_at": self._database.clock()}
        this = sa.and_(_rounds.c.round_id == round_id, _rounds.c.state == "intended")
        if not connection.execute(sa.update(_rounds).where(this).values(**values)).rowcount:
            raise InternalError(f"Round {round_id} is not open.")
