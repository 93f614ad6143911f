"""The inbox: change messages that arrive late, doubled, misordered or not at all, handed on in order, each once.

Messages of one source and table are a stream, ordered by version [SzeLing00 §3 (2): "instead of their order of arrival
at the view site"]. A message is handed on when it is certain that no other comes before it, and not sooner:

- in a **dense** stream versions count 1, 2, 3, ..., so a number that is not there is a gap;
- in an **ordered** stream (Debezium's lsn) numbers only grow, and a gap shows nowhere. There the source has to say
  which positions it has (``confirm``); until it does, messages wait.

What is not here may be late or lost, and nobody can tell which. So the inbox waits; after a limit it asks the source
again; after so many times it wants the table repaired by a query, whose answer tells the state at a version and so
stands for all messages up to it (``repaired``). It never guesses: two different messages at one position are not
decided between, and the rows that a snapshot read, of which no message tells how many there are, are not taken for the
table; both are repaired by query.

Pure: the time is passed in, what is to be done is returned, and ``waits_for`` says what is awaited and why. Nothing
that came is lost: what could not be taken stands in ``refused`` with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from headwater.errors import ContradictingMessages, HeadwaterError, InternalError, MalformedMessage
from headwater.sources.change_message import ChangeMessage, Operation, Position


class Numbering(Enum):
    DENSE = "dense"
    ORDERED = "ordered"


@dataclass(frozen=True, slots=True, order=True)
class StreamName:
    source: str
    table: str

    def __str__(self) -> str:
        return f"{self.table} of {self.source}"


@dataclass(frozen=True, slots=True)
class Limits:
    """In the caller's unit of time."""

    waiting: float  # before the source is asked again, and between askings
    silence: float  # without any message, before the source is asked whether there are newer ones
    askings: int  # in vain, before the table is to be repaired by query


@dataclass(frozen=True, slots=True)
class AskSource:
    """Have the source tell again what it has after a position; ``lost`` are the versions known not to be here."""

    stream: StreamName
    after: Position
    lost: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class RepairByQuery:
    """Read the table at some version at or after ``at_least``, and tell which by ``repaired``."""

    stream: StreamName
    at_least: int
    reason: str


Instruction: TypeAlias = AskSource | RepairByQuery


@dataclass(frozen=True, slots=True)
class Outcome:
    handed_on: tuple[ChangeMessage, ...] = ()
    instructions: tuple[Instruction, ...] = ()


@dataclass(frozen=True, slots=True)
class Waiting:
    """What a stream waits for and why; ``held`` messages that came wait with it."""

    stream: StreamName
    what: str
    why: str
    since: float
    askings: int
    held: int

    def __str__(self) -> str:
        return f"{self.stream}: waits for {self.what} since {self.since}, because {self.why}; {self.held} messages held"


@dataclass(frozen=True, slots=True)
class Refused:
    """A message that was not taken, as it came."""

    raw: object
    error: HeadwaterError


@dataclass(slots=True)
class _Stream:
    name: StreamName
    numbering: Numbering
    delivered: Position  # everything up to it was handed on or is in a state that was read
    heard: float  # when a message last came, or the source was last asked because none did
    held: dict[Position, ChangeMessage] = field(default_factory=dict)  # all after ``delivered``
    confirmed: int = -1  # the source has told of all positions up to this version
    announced: set[Position] = field(default_factory=set)  # of these, those after ``delivered``
    in_doubt: str | None = None  # why only a query can help
    doubtful: int = 0  # up to this version; a query of an older state does not help
    since: float | None = None  # when it began to wait; None when it does not
    asked_at: float | None = None
    askings: int = 0

    def ready(self) -> list[Position]:
        """What can be handed on now, in order; in doubt nothing can."""
        if self.in_doubt is not None:
            return []
        return self._ready_dense() if self.numbering is Numbering.DENSE else self._ready_ordered()

    def lost(self) -> tuple[int, ...]:
        """The versions that are known to exist and are not here, complete."""
        if self.numbering is Numbering.ORDERED:
            return tuple(sorted({position.version for position in self.announced - set(self.held)}))
        told_of = (position.version for position in (*self.held, *self.announced))
        newest = max(told_of, default=self.delivered.version)
        return tuple(v for v in range(self.delivered.version + 1, newest + 1) if not self._parts(v))

    def _ready_dense(self) -> list[Position]:
        found: list[Position] = []
        version = self.delivered.version + 1
        while parts := self._parts(version):
            found += parts
            version += 1
        return found

    def _ready_ordered(self) -> list[Position]:
        found = []
        for position in sorted(self.announced):
            if position not in self.held:
                break
            found.append(position)
        return found

    def _parts(self, version: int) -> list[Position]:
        """The positions of a version of a dense stream when all of them are here, else none."""
        here = sorted(position for position in self.held if position.version == version)
        if not here:
            return []
        wanted = self.held[here[0]].parts or 1
        return here if len(here) == wanted else []


@dataclass(slots=True)
class Inbox:
    limits: Limits
    streams: dict[StreamName, _Stream] = field(default_factory=dict)
    refused: list[Refused] = field(default_factory=list)

    def open(self, name: StreamName, numbering: Numbering, after: int, now: float) -> None:
        """Begin a stream whose table is known as of a version."""
        if name in self.streams:
            raise InternalError(f"the stream {name} is open")
        self.streams[name] = _Stream(name, numbering, Position.end_of(after), now)

    def receive_text(
        self, text: str | bytes, source: str, read: Callable[[str | bytes, str], ChangeMessage | None], now: float
    ) -> Outcome:
        """Read a message and receive it; one that can't be read is kept as it came."""
        try:
            message = read(text, source)
        except MalformedMessage as error:
            self.refused.append(Refused(text, error))
            return Outcome()
        return Outcome() if message is None else self.receive(message, now)

    def receive(self, message: ChangeMessage, now: float) -> Outcome:
        stream = self.streams.get(StreamName(message.source, message.table))
        if stream is None:
            return Outcome()  # a table that nobody reads
        stream.heard = now
        if message.position <= stream.delivered:
            return Outcome()
        version = message.position.version
        if message.operation is Operation.READ:
            return self._doubt(stream, now, version, "a snapshot was read, and no message tells how many rows it had")
        held = stream.held.get(message.position)
        if held == message:
            return Outcome()
        if held is not None or not self._fits(stream, message):
            error = ContradictingMessages(
                f"Two messages of {stream.name} at position {message.position} differ.",
                table=message.table,
                version=version,
                remedy="The table is repaired by query. For Debezium, switch on provide.transaction.metadata, which "
                "tells rows apart that share an lsn.",
            )
            self.refused.append(Refused(message, error))
            return self._doubt(stream, now, version, f"messages at position {message.position} contradict each other")
        stream.held[message.position] = message
        return self._hand_on(stream, now)

    def confirm(self, name: StreamName, up_to: int, positions: Iterable[Position], now: float) -> Outcome:
        """The source's word: after what was handed on, these positions and no others exist up to version ``up_to``."""
        stream = self.streams[name]
        stream.heard = now
        if up_to <= stream.confirmed:
            return Outcome()
        stream.confirmed = up_to
        stream.announced |= {each for each in positions if stream.delivered < each <= Position.end_of(up_to)}
        unknown = [each for each in stream.held if each.version <= up_to and each not in stream.announced]
        if unknown and stream.numbering is Numbering.ORDERED:
            reason = f"a message told of position {min(unknown)}, of which the source does not know"
            return self._doubt(stream, now, max(unknown).version, reason)
        return self._hand_on(stream, now)

    def repaired(self, name: StreamName, version: int, now: float) -> Outcome:
        """The table was read as of a version: that stands for every message up to there."""
        stream = self.streams[name]
        at = Position.end_of(version)
        if at < stream.delivered:
            return Outcome()
        stream.delivered = at
        stream.held = {position: message for position, message in stream.held.items() if position > at}
        stream.announced = {position for position in stream.announced if position > at}
        if version >= stream.doubtful:
            stream.in_doubt = stream.since = stream.asked_at = None
            stream.askings = 0
        return self._hand_on(stream, now)

    def tick(self, now: float) -> tuple[Instruction, ...]:
        """What to do about the streams that have waited, or been silent, for too long."""
        return tuple(instruction for stream in self.streams.values() for instruction in self._due(stream, now))

    def waits_for(self) -> tuple[Waiting, ...]:
        return tuple(_waiting(stream) for stream in self.streams.values() if stream.since is not None)

    def validate(self) -> None:
        for stream in self.streams.values():
            if any(position <= stream.delivered for position in stream.held):
                raise InternalError(f"{stream.name} holds what it has handed on")
            if stream.ready():
                raise InternalError(f"{stream.name} keeps back what is ready")
            if (stream.since is None) != (not stream.held and not stream.lost() and stream.in_doubt is None):
                raise InternalError(f"{stream.name} does not know whether it waits")

    def _fits(self, stream: _Stream, message: ChangeMessage) -> bool:
        """Whether the messages of one version agree on how many they are."""
        beside = (other for other in stream.held.values() if other.position.version == message.position.version)
        return all(other.parts == message.parts for other in beside)

    def _hand_on(self, stream: _Stream, now: float) -> Outcome:
        handed_on = tuple(stream.held.pop(position) for position in stream.ready())
        if handed_on:
            last = handed_on[-1].position
            stream.delivered = Position.end_of(last.version) if stream.numbering is Numbering.DENSE else last
            stream.announced = {position for position in stream.announced if position > stream.delivered}
            stream.since = stream.asked_at = None
            stream.askings = 0
        if stream.since is None and (stream.held or stream.lost() or stream.in_doubt is not None):
            stream.since = now
        return Outcome(handed_on)

    def _doubt(self, stream: _Stream, now: float, version: int, reason: str) -> Outcome:
        stream.doubtful = max(stream.doubtful, version)
        if stream.in_doubt is not None:
            return Outcome()
        stream.in_doubt = reason
        stream.since = now if stream.since is None else stream.since
        stream.asked_at = now
        return Outcome(instructions=(_repair(stream),))

    def _due(self, stream: _Stream, now: float) -> Iterable[Instruction]:
        if stream.since is None:
            if now - stream.heard >= self.limits.silence:
                stream.heard = now
                yield AskSource(stream.name, stream.delivered)
            return
        last = stream.since if stream.asked_at is None else stream.asked_at
        if now - last < self.limits.waiting:
            return
        stream.asked_at = now
        if stream.in_doubt is None and stream.askings >= self.limits.askings:
            stream.in_doubt = f"the source was asked {stream.askings} times in vain"
            stream.doubtful = max(stream.lost() or [position.version for position in stream.held])
        if stream.in_doubt is not None:
            yield _repair(stream)
        else:
            stream.askings += 1
            yield AskSource(stream.name, stream.delivered, stream.lost())


def _repair(stream: _Stream) -> RepairByQuery:
    return RepairByQuery(stream.name, stream.doubtful, stream.in_doubt or "")


def _waiting(stream: _Stream) -> Waiting:
    if stream.in_doubt is not None:
        what, why = "a repair by query", stream.in_doubt
    elif lost := stream.lost():
        what = "versions " + ", ".join(map(str, lost[:10])) + (", ..." if len(lost) > 10 else "")
        why = "later ones are here" if stream.numbering is Numbering.DENSE else "the source has them"
    else:
        what = "the source's word on what it has"
        why = "its numbers grow without being dense, so they do not show whether a message is lost"
    since = 0.0 if stream.since is None else stream.since
    return Waiting(stream.name, what, why, since, stream.askings, len(stream.held))
