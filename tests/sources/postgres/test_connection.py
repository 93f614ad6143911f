"""Addresses and secrets, without a server."""

from __future__ import annotations

import pickle
from pathlib import Path

import psycopg
import pytest

from headwater.errors import (
    DatabaseFailed,
    DatabaseNotReady,
    DatabaseUnavailable,
    InvalidInput,
    SecretMissing,
    SlotBusy,
)
from headwater.sources.postgres.connection import (
    Address,
    FromEnvironment,
    FromFile,
    Retry,
    Timeouts,
    Tls,
    connect,
    failure,
    translated,
)

SECRET = "s3cr3t-hunter2"  # noqa: S105  that is the point


def test_an_address_is_read_from_a_url() -> None:
    found = Address.parse(
        "postgresql://reader%40x@db.example:6432/shop%20one?password_env=SHOP&sslmode=require&sslrootcert=/ca.pem"
        "&connect_timeout=3&statement_timeout=60"
    )
    assert found == Address(
        host="db.example",
        port=6432,
        database="shop one",
        user="reader@x",
        password=FromEnvironment("SHOP"),
        tls=Tls("require", "/ca.pem"),
        timeouts=Timeouts(connect=3, statement=60),
    )
    assert Address.parse("postgres://u@/d?host=/run/pg&password_file=/s").password == FromFile("/s")
    assert Address.parse("postgres://u@/d?host=/run/pg").is_local
    assert not found.is_local


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://u:{SECRET}@h/d",
        f"postgresql://u@h/d?password={SECRET}",
        f"postgresql://u@h/d?sslpassword={SECRET}",
        f"postgresql://u:{SECRET}@h:notaport/d",
        f"postgresql://u:{SECRET}@[h/d",
        f"mysql://u@h/{SECRET}",
        f"postgresql://h/{SECRET}",
        f"postgresql://u@h?{SECRET}",
        f"host=h password={SECRET}",
    ],
)
def test_an_address_with_a_password_or_without_sense_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        Address.parse(url)
    assert SECRET not in f"{caught.value} {caught.value.as_dict()}"
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@pytest.mark.parametrize("options", ["options=-cx", "sslmode=a&sslmode=b", "connect_timeout=0", "connect_timeout=x"])
def test_unknown_options_are_refused(options: str) -> None:
    with pytest.raises(InvalidInput):
        Address.parse(f"postgresql://u@h/d?{options}")


def test_nothing_that_can_be_stored_or_shown_holds_the_password(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SHOP", SECRET)
    (tmp_path / "secret").write_text(f"{SECRET}\n")
    for place in (FromEnvironment("SHOP"), FromFile(str(tmp_path / "secret"))):
        address = Address("h", "d", "u", password=place)
        assert place.read() == SECRET
        for shown in (repr(address), str(address), str(address.as_dict()), repr(pickle.dumps(address))):
            assert SECRET not in shown


@pytest.mark.parametrize("place", [FromEnvironment("HEADWATER_NOT_SET"), FromFile("/nowhere/secret")])
def test_a_missing_secret_is_told_with_its_place(place: FromEnvironment | FromFile) -> None:
    with pytest.raises(SecretMissing, match=str(place)):
        connect(Address("127.0.0.1", "d", "u", password=place))


def test_errors_of_the_driver_leave_without_the_password() -> None:
    with pytest.raises(DatabaseUnavailable) as caught, translated("db", "reading", SECRET):
        raise psycopg.OperationalError(f"connection with password={SECRET} timed out")
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None
    with pytest.raises(DatabaseUnavailable) as caught, translated("db", "reading", SECRET):
        raise psycopg.OperationalError("connection lost")
    assert isinstance(caught.value.__cause__, psycopg.OperationalError)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (psycopg.errors.ObjectInUse("slot is active"), SlotBusy),
        (psycopg.errors.InsufficientPrivilege("no"), DatabaseNotReady),
        (psycopg.errors.InvalidPassword("no"), DatabaseNotReady),
        (psycopg.errors.UndefinedObject("no publication"), DatabaseNotReady),
        (psycopg.OperationalError("FATAL: password authentication failed"), DatabaseNotReady),
        (psycopg.OperationalError("connection refused"), DatabaseUnavailable),
        (psycopg.errors.AdminShutdown("bye"), DatabaseUnavailable),
        (psycopg.errors.QueryCanceled("statement timeout"), DatabaseUnavailable),
        (psycopg.errors.LockNotAvailable("lock timeout"), DatabaseUnavailable),
        (psycopg.errors.UndefinedFunction("no"), DatabaseFailed),
    ],
)
def test_errors_of_the_driver_get_a_class_and_a_remedy(error: psycopg.Error, expected: type[Exception]) -> None:
    found = failure(error, "postgresql://u@h:5432/d", "reading")
    assert type(found) is expected
    assert found.remedy
    assert found.database == "postgresql://u@h:5432/d"


def test_what_may_pass_is_tried_again_with_growing_pauses() -> None:
    pauses: list[float] = []
    left = [SlotBusy("x", database="d"), DatabaseUnavailable("x", database="d")]

    def action() -> str:
        if left:
            raise left.pop()
        return "done"

    assert Retry(3, 1.0, 1.5).run(action, pauses.append) == "done"
    assert pauses == [1.0, 1.5]


def test_retries_end_and_what_will_not_pass_is_not_tried_again() -> None:
    tried: list[type[Exception]] = []
    for kind in (DatabaseUnavailable, DatabaseNotReady):

        def action(kind: type[DatabaseUnavailable | DatabaseNotReady] = kind) -> None:
            tried.append(kind)
            raise kind("x", database="d")

        with pytest.raises(kind):
            Retry(3).run(action, lambda _: None)
    assert tried == [DatabaseUnavailable] * 3 + [DatabaseNotReady]
