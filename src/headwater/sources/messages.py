"""Change messages that arrive as files, as a feed: through the inbox, each table in its own order.

A place (a directory, or any URI that pyarrow knows) holds files, each a message or one message a line. They may come
late, doubled, in any order, or not at all; nothing is ever deleted from the place. What was handed on is known by its
position in the table's own numbering, so a file that is read again does no harm, and one whose messages were all
handed on is not read again.

*State.* The inbox is rebuilt from the files at every reading, with the time at which each arrived, and then told how
time has passed since: so it has asked, waited and given up just as if it had run all the while, and a process that
starts anew knows the same. What it holds is in the files; the catalog only remembers how far it was handed on.

*Words of the source.* Debezium's numbers do not show what is missing, so the place must also hold the source's word on
which positions it has: ``{"table": "shop.orders", "up_to": 1200, "positions": [[1100, 1], [1200, 1]]}``. What is to be
asked of the source again is written as JSON to ``requests``, if such a place was given, and shown by ``status``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from pyarrow import ArrowException, fs

from headwater.catalog.records import MirrorRecord, SourceRecord
from headwater.engine.files import file_system
from headwater.errors import DatabaseUnavailable, HeadwaterError, MalformedMessage, SourceProblem
from headwater.sources.change_message import ChangeMessage, Operation, Position, read_debezium, read_plain
from headwater.sources.feed import Emptied, FeedChange, RowChange
from headwater.sources.feed import Position as FeedPosition
from headwater.sources.inbox import AskSource, Inbox, Limits, Numbering, RepairByQuery, StreamName
from headwater.sources.message_values import row_reader

FORMATS = ("plain", "debezium")
_MICROS = 1_000_000
MOST_VERSIONS = 20_000
DEFAULT_LIMITS = Limits(waiting=60.0, silence=float("inf"), askings=5)


@dataclass(frozen=True, slots=True)
class Arrived:
    """A file and when it came, in seconds."""

    name: str
    at: float


class Place:
    """A directory of messages, wherever it is."""

    def __init__(self, location: str) -> None:
        self._location = location

    def files(self) -> list[Arrived]:
        """By the time of their arrival; names that begin with . or _ are not messages."""
        with self._reachable() as (system, path):
            found = system.get_file_info(fs.FileSelector(path, allow_not_found=False))
        files = [each for each in found if each.type is fs.FileType.File and each.base_name[0] not in "._"]
        return sorted(
            (Arrived(each.base_name, (each.mtime_ns or 0) / 1e9) for each in files), key=lambda f: (f.at, f.name)
        )

    def read(self, name: str) -> bytes:
        with self._reachable() as (system, path), system.open_input_stream(f"{path}/{name}") as stream:
            return bytes(stream.read())

    def write(self, name: str, content: bytes) -> None:
        with self._reachable() as (system, path):
            system.create_dir(path)
            with system.open_output_stream(f"{path}/{name}") as stream:
                stream.write(content)

    def _reachable(self) -> _Reaching:
        return _Reaching(self._location)


class _Reaching:
    """The file system of a place, its failures as ours."""

    def __init__(self, location: str) -> None:
        self._location = location

    def __enter__(self) -> tuple[fs.FileSystem, str]:
        try:
            system, path = file_system(self._location)
            return system, path.rstrip("/")
        except (OSError, ArrowException, NotImplementedError) as error:
            raise self._failure(error) from error

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError | ArrowException | NotImplementedError):
            raise self._failure(error) from error

    def _failure(self, error: BaseException) -> DatabaseUnavailable:
        return DatabaseUnavailable(
            f"The messages at {self._location} can't be read: {str(error).splitlines()[0][:200]}",
            database=self._location,
            remedy="Nothing is lost: what was handed on is known. Make the place readable and try again.",
        )


@dataclass(frozen=True, slots=True)
class MessageTransaction:
    """The messages of one version of one table."""

    name: str
    messages: tuple[ChangeMessage, ...]
    committed_at: int
    after: FeedPosition
    _read: Callable[[Mapping[str, Any]], tuple[Any, ...]]

    @property
    def version(self) -> int:
        return self.messages[0].position.version

    @property
    def transaction(self) -> str | None:
        return self.messages[0].transaction

    @property
    def touched(self) -> frozenset[str]:
        return frozenset({self.name})

    def changes(self) -> Iterator[FeedChange]:
        for message in self.messages:
            if message.operation is Operation.TRUNCATE:
                yield Emptied(self.name)
            if message.before is not None:
                yield RowChange(self.name, self._read(message.before), -1)
            if message.after is not None:
                yield RowChange(self.name, self._read(message.after), 1)


@dataclass(frozen=True, slots=True)
class MessageBatch:
    transactions: tuple[MessageTransaction, ...]
    position: FeedPosition
    complete: bool
    waiting: list[dict[str, Any]]

    @property
    def problems(self) -> Mapping[str, SourceProblem]:
        return {}

    @property
    def lost_keys(self) -> frozenset[str]:
        return frozenset()

    def close(self) -> None:
        """Nothing is held open."""


@dataclass(frozen=True, slots=True)
class MessageFeed:
    """The messages of one table in a place."""

    name: str
    table: str
    columns: tuple[tuple[str, str], ...]
    place: Place
    format: str
    limits: Limits
    clock: Callable[[], float]
    requests: Place | None = None
    most_versions: int = MOST_VERSIONS

    @property
    def stream(self) -> StreamName:
        return StreamName("messages", self.table)

    def read(self, position: FeedPosition) -> MessageBatch:
        delivered = Position(*position["delivered"])
        done = set(position.get("files", ()))
        files = self.place.files()
        arrivals = _Arrivals(self, delivered)
        for file in files:
            if file.name not in done:
                arrivals.take(file)
        arrivals.let_pass(self.clock())
        handed_on = arrivals.whole_versions()
        versions = list(dict.fromkeys(message.position.version for message in handed_on))
        kept = set(versions[: self.most_versions])
        messages = [message for message in handed_on if message.position.version in kept]
        here = {file.name for file in files}
        base = sorted(done & here)
        transactions = tuple(self._transactions(messages, arrivals.times, base))
        complete = len(kept) == len(versions)
        last = transactions[-1].after["delivered"] if transactions else position["delivered"]
        finished = [*base, *arrivals.finished(Position(*last))] if complete else base
        after: FeedPosition = {"delivered": last, "files": sorted(set(finished))}
        return MessageBatch(transactions, after, complete, arrivals.waiting())

    def _transactions(
        self, messages: Sequence[ChangeMessage], times: Mapping[Position, float], files: list[str]
    ) -> Iterator[MessageTransaction]:
        read = row_reader(self.table, self.columns)
        by_version: dict[int, list[ChangeMessage]] = {}
        for message in messages:
            by_version.setdefault(message.position.version, []).append(message)
        for version, parts in by_version.items():
            told = [message.committed_at for message in parts if message.committed_at is not None]
            at = max(told) if told else int(max(times[message.position] for message in parts) * _MICROS)
            end = Position.end_of(version)
            after: FeedPosition = {"delivered": [end.version, end.part], "files": files}
            yield MessageTransaction(self.name, tuple(parts), at, after, read)

    def confirm(self, position: FeedPosition) -> None:
        """The files stay: they are not ours."""

    def close(self) -> None:
        """Nothing is held open."""


class _Arrivals:
    """The messages of a place on their way through a fresh inbox."""

    def __init__(self, feed: MessageFeed, delivered: Position) -> None:
        self._feed = feed
        self._inbox = Inbox(feed.limits)
        numbering = Numbering.DENSE if feed.format == "plain" else Numbering.ORDERED
        self._inbox.open(feed.stream, numbering, delivered.version, 0.0)
        self._newest: dict[str, Position | None] = {}
        self._refused: list[dict[str, Any]] = []
        self._asked: list[AskSource | RepairByQuery] = []
        self.handed_on: list[ChangeMessage] = []
        self.times: dict[Position, float] = {}

    def take(self, file: Arrived) -> None:
        self._newest[file.name] = None
        for text in _texts(self._feed.place.read(file.name)):
            try:
                message = self._message(text, file)
            except HeadwaterError as error:
                self._refused.append({**error.as_dict(), "table": self._feed.name, "file": file.name})
                self._newest[file.name] = Position.end_of(1 << 62)  # shown until it is mended or taken away
                continue
            if message is None or message.table != self._feed.table:
                continue
            self.times.setdefault(message.position, file.at)
            newest = self._newest[file.name]
            self._newest[file.name] = message.position if newest is None else max(newest, message.position)
            outcome = self._inbox.receive(message, file.at)
            self.handed_on += outcome.handed_on

    def _message(self, text: bytes, file: Arrived) -> ChangeMessage | None:
        if self._feed.format == "plain":
            return _readable(read_plain(text, "messages"), self._feed)
        word = _word(text)
        if word is not None:
            if word["table"] == self._feed.table:
                positions = [Position(*each) for each in word["positions"]]
                self._newest[file.name] = max(positions, default=None)
                outcome = self._inbox.confirm(self._feed.stream, word["up_to"], positions, file.at)
                self.handed_on += outcome.handed_on
            return None
        found = read_debezium(text, "messages")
        return None if found is None else _readable(found, self._feed)

    def let_pass(self, now: float) -> None:
        """What an inbox that ran all the while would have asked for by now."""
        waits = self._inbox.waits_for()
        moment = min((each.since for each in waits), default=now)
        step = max(self._feed.limits.waiting, 1e-3)
        for _ in range(self._feed.limits.askings + 2):
            moment += step
            if moment > now:
                break
            self._asked += self._inbox.tick(moment)
        if self._asked and self._feed.requests is not None and waits:
            self._ask(self._asked[-1], self._feed.requests)

    def _ask(self, instruction: AskSource | RepairByQuery, requests: Place) -> None:
        content: dict[str, Any] = {"table": self._feed.table}
        match instruction:
            case AskSource(_, after, lost):
                content |= {"tell_again_after": [after.version, min(after.part, 1 << 31)], "lost": list(lost)}
            case RepairByQuery(_, at_least, reason):
                content |= {"state_at_or_after": at_least, "reason": reason}
        requests.write(f"{self._feed.table}.json", json.dumps(content, sort_keys=True).encode())

    def whole_versions(self) -> list[ChangeMessage]:
        """What was handed on, without the last version if parts of it are still to come."""
        awaited = {position.version for position in self._inbox.streams[self._feed.stream].announced}
        return [message for message in self.handed_on if message.position.version not in awaited]

    def finished(self, delivered: Position) -> list[str]:
        """The files of which nothing is left to hand on."""
        return [name for name, newest in self._newest.items() if newest is None or newest <= delivered]

    def waiting(self) -> list[dict[str, Any]]:
        found = [
            {
                "table": self._feed.name,
                "what": each.what,
                "why": each.why,
                "since": datetime.fromtimestamp(each.since, timezone.utc).isoformat(timespec="seconds"),
                "askings": each.askings,
                "held": each.held,
            }
            for each in self._inbox.waits_for()
        ]
        contradictions = [{**refused.error.as_dict(), "table": self._feed.name} for refused in self._inbox.refused]
        return [*found, *contradictions, *self._refused]


def _readable(message: ChangeMessage, feed: MessageFeed) -> ChangeMessage:
    """A message whose rows can't be read is refused when it comes, not when its turn does."""
    if message.table == feed.table:
        read = row_reader(feed.table, feed.columns)
        for image in (message.before, message.after):
            if image is not None:
                read(image)
    return message


def _texts(content: bytes) -> list[bytes]:
    """One message, or one a line."""
    lines = [line for line in content.splitlines() if line.strip()]
    if len(lines) < 2:
        return lines
    try:
        json.loads(content)
    except ValueError:
        return lines
    return [content]


def _word(text: bytes) -> dict[str, Any] | None:
    """The source's word on what it has, if that is what a text is."""
    if b'"up_to"' not in text:
        return None
    try:
        found = json.loads(text)
    except ValueError:
        return None
    if not isinstance(found, dict) or "up_to" not in found:
        return None
    positions = found.get("positions")
    if (
        not isinstance(found.get("table"), str)
        or not isinstance(found["up_to"], int)
        or not isinstance(positions, list)
        or not all(isinstance(each, list) and len(each) in (1, 2) for each in positions)
    ):
        raise MalformedMessage(
            "A word on what the source has is not as expected.",
            table=str(found.get("table")),
            remedy='Give {"table": "s.t", "up_to": n, "positions": [[version, part], ...]}.',
        )
    return found


def open_messages(source: SourceRecord, mirrors: Sequence[MirrorRecord]) -> MessageFeed:
    import time

    (mirror,) = mirrors
    settings = source.settings
    limits = Limits(settings["waiting"], DEFAULT_LIMITS.silence, settings["askings"])
    return MessageFeed(
        mirror.name,
        mirror.described["message_table"],
        tuple((name, kind) for name, kind in mirror.described["columns"]),
        Place(source.address),
        settings["format"],
        limits,
        time.time,
        None if settings.get("requests") is None else Place(settings["requests"]),
        MOST_VERSIONS,
    )
