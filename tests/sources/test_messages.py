"""Change messages in a directory: late, doubled, out of order, lost, contradicting; handed on in order, once."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Iterator
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from headwater.capture.attach import detach, reattach
from headwater.errors import DatabaseUnavailable, InvalidInput, MalformedMessage, UnsupportedType
from headwater.sources import messages
from headwater.sources.message_values import row_reader
from tests.sources.postgres.mirror_world import World

COLUMNS = {"k": "int", "v": "string"}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    made = tmp_path / "messages"
    made.mkdir()
    return made


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    folder = tmp_path / "lake"
    folder.mkdir()
    made = World(folder)
    yield made
    made.close()


def track(world: World, place: Path, **options: Any) -> None:
    world.track("t", f"messages:{place}", **{"prepare": None, "table": "shop.t", "columns": COLUMNS, **options})


def plain(version: int, op: str, *, before: object = None, after: object = None, **more: object) -> dict[str, object]:
    images = {name: {"k": row[0], "v": row[1]} for name, row in (("before", before), ("after", after)) if row}  # type: ignore[index]
    return {"table": "shop.t", "version": version, "op": op, "ts_us": 1_700_000_000_000_000 + version, **images, **more}


def put(place: Path, name: str, *messages: dict[str, Any], age: float = 0.0) -> None:
    file = place / name
    file.write_text("\n".join(json.dumps(message) for message in messages))
    if age:
        at = file.stat().st_mtime - age
        os.utime(file, (at, at))


def waiting(world: World) -> list[dict[str, Any]]:
    return world.context.catalog.sources()[0].waiting or []


def test_messages_out_of_order_doubled_and_in_many_files_are_exact_at_every_version(world: World, place: Path) -> None:
    dice = random.Random(3)
    state: dict[int, str] = {}
    told, states = [], [Counter[tuple[int, str]]()]
    for version in range(1, 41):
        k = dice.randrange(5)
        if k not in state:
            told.append(plain(version, "c", after=(k, f"n{version}")))
            state[k] = f"n{version}"
        elif dice.random() < 0.4:
            told.append(plain(version, "d", before=(k, state.pop(k))))
        else:
            told.append(plain(version, "u", before=(k, state[k]), after=(k, f"n{version}")))
            state[k] = f"n{version}"
        states.append(Counter(state.items()))
    track(world, place, key=["k"])
    pool = told + dice.sample(told, 15)
    dice.shuffle(pool)
    for number in range(0, len(pool), 5):
        put(place, f"part-{dice.randrange(10**6):06}.json", *pool[number : number + 5])
        world.capture()
        if dice.random() < 0.3:
            world.restart()
    assert world.newest() == 40
    assert [unit.version for unit in world.context.catalog.units()] == list(range(1, 41))
    for csn in range(41):
        assert world.rows("t", csn) == states[csn], csn
    assert waiting(world) == []
    position = world.context.catalog.sources()[0].position
    assert position is not None
    assert len(position["files"]) == len(list(place.iterdir()))  # all are done with


def test_a_gap_is_waited_for_then_asked_for_then_wants_a_repair_and_status_says_so(world: World, place: Path) -> None:
    requests = place.parent / "requests"
    track(world, place, waiting=60, askings=2, requests=str(requests))
    put(place, "1.json", plain(1, "c", after=(1, "a")))
    put(place, "3.json", plain(3, "c", after=(3, "c")), age=10)
    world.capture()
    assert world.newest() == 1
    (found,) = waiting(world)
    assert (found["what"], found["askings"], found["held"]) == ("versions 2", 0, 1)
    assert not requests.exists()
    put(place, "3.json", plain(3, "c", after=(3, "c")), age=90)
    world.capture()
    assert waiting(world)[0]["askings"] == 1
    assert json.loads((requests / "shop.t.json").read_text())["lost"] == [2]
    put(place, "3.json", plain(3, "c", after=(3, "c")), age=1000)
    world.capture()
    assert waiting(world)[0]["what"] == "a repair by query"
    assert json.loads((requests / "shop.t.json").read_text())["state_at_or_after"] >= 2
    with pytest.raises(InvalidInput, match="can't be asked"):
        reattach(world.context, "t")
    world.store.given["/copy"] = [(2, "b"), (3, "c")]
    reattach(world.context, "t", "/copy", 3)
    assert world.rows("t") == Counter({(2, "b"): 1, (3, "c"): 1})  # the delete in the gap too
    assert world.rows("t", 1) == Counter({(1, "a"): 1})
    assert waiting(world) == []
    put(place, "4.json", plain(4, "d", before=(2, "b")))
    world.capture()
    assert world.rows("t") == Counter({(3, "c"): 1})
    with pytest.raises(InvalidInput, match="version 4 already"):
        reattach(world.context, "t", "/copy", 3)


def test_a_late_message_ends_the_waiting(world: World, place: Path) -> None:
    track(world, place)
    put(place, "b.json", plain(2, "d", before=(1, "a")))
    world.capture()
    assert world.newest() == 0
    assert len(waiting(world)) == 1
    put(place, "a.json", plain(1, "c", after=(1, "a")))
    world.capture()
    assert (world.newest(), waiting(world), world.rows("t")) == (2, [], Counter())


def test_parts_of_a_version_are_one_unit_of_work(world: World, place: Path) -> None:
    track(world, place)
    put(place, "a.json", plain(1, "c", after=(1, "a"), part=1, parts=2))
    world.capture()
    assert world.newest() == 0
    put(place, "b.json", plain(1, "c", after=(1, "a"), part=2, parts=2))
    world.capture()
    assert world.newest() == 1
    assert world.rows("t") == Counter({(1, "a"): 2})


def test_contradicting_messages_are_not_decided_between(world: World, place: Path) -> None:
    track(world, place)
    put(place, "a.json", plain(2, "c", after=(1, "a")))
    put(place, "b.json", plain(2, "c", after=(1, "b")))
    world.capture()
    assert world.newest() == 0
    assert {each.get("code") for each in waiting(world)} == {None, "CONTRADICTING_MESSAGES"}


def test_a_message_that_can_not_be_read_is_shown_until_it_is_mended(world: World, place: Path) -> None:
    track(world, place)
    put(place, "a.json", {"table": "shop.t", "version": 1, "op": "c", "row": {"k": "no number", "v": "x"}})
    world.capture()
    world.capture()
    (found,) = waiting(world)
    assert (found["code"], found["file"]) == ("MALFORMED_MESSAGE", "a.json")
    assert "no number" not in str(found["message"])
    put(place, "a.json", plain(1, "c", after=(1, "x")))
    world.capture()
    assert (world.newest(), waiting(world)) == (1, [])


def test_truncate_and_messages_of_other_tables(world: World, place: Path) -> None:
    track(world, place)
    put(place, "a.json", plain(1, "c", after=(1, "a")), {**plain(1, "c", after=(9, "z")), "table": "shop.other"})
    put(place, "b.json", {"table": "shop.t", "version": 2, "op": "t"})
    world.capture()
    assert world.rows("t", 1) == Counter({(1, "a"): 1})
    assert world.rows("t", 2) == Counter()


def envelope(lsn: int, op: str, *, before: object = None, after: object = None) -> dict[str, Any]:
    return {
        "op": op,
        "before": before,
        "after": after,
        "source": {"schema": "shop", "table": "t", "lsn": lsn, "txId": 5, "ts_us": 1_700_000_000_000_000 + lsn},
        "transaction": {"id": "5", "total_order": 1},
    }


def test_debezium_waits_for_the_word_of_its_source(world: World, place: Path) -> None:
    track(world, place, format="debezium")
    put(place, "a.json", envelope(200, "u", before={"k": 1, "v": "a"}, after={"k": 1, "v": "b"}))
    world.capture()
    assert world.newest() == 0
    assert waiting(world)[0]["what"] == "the source's word on what it has"
    put(place, "word.json", {"table": "shop.t", "up_to": 200, "positions": [[100, 1], [200, 1]]})
    world.capture()
    assert waiting(world)[0]["what"] == "versions 100"
    put(place, "b.json", envelope(100, "c", after={"k": 1, "v": "a"}))
    world.capture()
    assert [unit.version for unit in world.context.catalog.units()] == [100, 200]
    assert world.rows("t") == Counter({(1, "b"): 1})


def test_versions_of_many_messages_are_read_in_bounded_batches(
    world: World, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    track(world, place)
    put(place, "a.json", *(plain(version, "c", after=(version, "x")) for version in range(1, 31)))
    monkeypatch.setattr(messages, "MOST_VERSIONS", 7)
    world.capture()
    assert world.newest() == 30
    assert world.store.largest == 7


def test_a_place_that_is_not_there(world: World, place: Path) -> None:
    with pytest.raises(DatabaseUnavailable, match="can't be read"):
        track(world, place / "nowhere")
    assert world.context.catalog.sources() == []


def test_a_table_begins_with_a_state_at_a_version_and_is_untracked(world: World, place: Path) -> None:
    world.store.given["/initial"] = [(7, "seven")]
    track(world, place, initial="/initial", after=10)
    put(place, "old.json", plain(9, "c", after=(9, "nine")))
    put(place, "new.json", plain(11, "d", before=(7, "seven")))
    world.capture()
    assert world.rows("t", 0) == Counter({(7, "seven"): 1})
    assert world.rows("t") == Counter()
    detach(world.context, "t")
    assert world.context.catalog.sources() == world.context.catalog.base_tables() == []


@pytest.mark.parametrize(
    ("kind", "given", "expected"),
    [
        ("int", 5, 5),
        ("bigint", 2**62, 2**62),
        ("decimal(5,2)", "1.50", Decimal("1.50")),
        ("decimal(5,2)", Decimal("999.99"), Decimal("999.99")),
        ("decimal(5,2)", 7, Decimal(7)),
        ("double", Decimal("0.5"), 0.5),
        ("date", 1, date(1970, 1, 2)),
        ("date", "2024-02-29", date(2024, 2, 29)),
        ("timestamp", 1_000_000, datetime(1970, 1, 1, 0, 0, 1, tzinfo=timezone.utc)),
        ("timestamp", "2024-01-01T00:00:00Z", datetime(2024, 1, 1, tzinfo=timezone.utc)),
        ("timestamp_ntz", 0, datetime(1970, 1, 1)),
        ("binary", "aGk=", b"hi"),
        ("array<int>", [1, None], [1, None]),
        ("string", None, None),
        ("boolean", True, True),
    ],
)
def test_values_of_messages(kind: str, given: object, expected: object) -> None:
    assert row_reader("t", [("c", kind)])({"c": given}) == (expected,)


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        ("int", 2**31),
        ("int", True),
        ("int", Decimal("1.0")),
        ("int", "1"),
        ("decimal(5,2)", "1.555"),
        ("decimal(5,2)", 1000),
        ("decimal(5,2)", "NaN"),
        ("double", "1.5"),
        ("date", "2024-02-30"),
        ("timestamp", "yesterday"),
        ("binary", "not base64!"),
        ("string", 5),
        ("boolean", 1),
        ("array<int>", "[]"),
    ],
)
def test_values_that_do_not_fit_are_refused_and_not_shown(kind: str, given: object) -> None:
    with pytest.raises(MalformedMessage) as raised:
        row_reader("t", [("c", kind)])({"c": given})
    assert "yesterday" not in str(raised.value)
    with pytest.raises(UnsupportedType):
        row_reader("t", [("c", "map<int,int>")])
