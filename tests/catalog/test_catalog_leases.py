"""Leases between threads and between real processes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa
from tests.catalog.conftest import TickingClock
from tests.catalog.worlds import LINES, ORDERS, commit

import headwater
from headwater.catalog import Catalog, open_catalog, schema, system_clock
from headwater.catalog.processes import Process
from headwater.errors import InvalidInput, LeaseHeld, LeaseLost

ROOT = Path(__file__).parents[2]


@contextmanager
def worker(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    source = Path(headwater.__path__[0]).parent
    environment = {**os.environ, "PYTHONPATH": f"{source}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-m", "tests.catalog.worker", *arguments]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=ROOT
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def answer(process: subprocess.Popen[str]) -> list[str]:
    assert process.stdout is not None
    return process.stdout.readline().split()


@pytest.fixture
def real(url: str) -> Iterator[Catalog]:
    """A catalog on the system's clock, as other processes have."""
    with open_catalog(url, clock=system_clock, create=True) as catalog:
        yield catalog


def change_row(catalog: Catalog, **values: object) -> None:
    with catalog._database.write() as connection:
        connection.execute(sa.update(schema.driver_leases).values(**values))


def row(catalog: Catalog) -> sa.Row[tuple[object, ...]]:
    with catalog._database.read() as connection:
        return connection.execute(sa.select(schema.driver_leases)).one()


def test_tokens_grow_with_every_acquisition(catalog: Catalog, opened: Callable[[], Catalog]) -> None:
    other = opened()
    tokens = []
    for taker in (catalog, other, catalog):
        with taker.lease("view:a") as lease:
            tokens.append(lease.token)
            taker.check_lease(lease)
        assert (row(taker).holder, row(taker).token) == ("", lease.token)
    assert tokens == [1, 2, 3]
    with catalog.lease("view:a"), catalog.lease("view:b") as second:
        assert second.token == 1


def test_a_held_lease_says_who_holds_it(catalog: Catalog, opened: Callable[[], Catalog]) -> None:
    other = opened()
    with catalog.lease("view:a") as lease:
        for taker in (other, catalog):
            with pytest.raises(LeaseHeld) as caught, taker.lease("view:a"):
                pass
            for part in (lease.holder, socket.gethostname(), str(os.getpid()), "until 20"):
                assert part in str(caught.value)
            assert caught.value.fields["holder"] == lease.holder
            assert caught.value.fields["pid"] == os.getpid()
        catalog.check_lease(lease)
    with pytest.raises(LeaseLost, match="nobody holds it now"):
        catalog.check_lease(lease)
    with pytest.raises(InvalidInput), catalog.lease("view:a", ttl=0):
        pass


def test_a_lease_is_given_back_when_the_block_fails(catalog: Catalog) -> None:
    with pytest.raises(ZeroDivisionError), catalog.lease("view:a"):
        raise ZeroDivisionError
    with catalog.lease("view:a") as lease:
        assert lease.token == 2


def test_waiting_for_a_lease(catalog: Catalog, opened: Callable[[], Catalog]) -> None:
    other = opened()
    held, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with other.lease("view:a"):
            held.set()
            leave.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    try:
        began = time.monotonic()
        with pytest.raises(LeaseHeld), catalog.lease("view:a", wait=0.3):
            pass
        assert time.monotonic() - began >= 0.3
        threading.Timer(0.2, leave.set).start()
        with catalog.lease("view:a", wait=30) as lease:
            assert lease.token == 2
    finally:
        leave.set()
        thread.join()


def test_an_expired_lease_is_taken_over_and_its_holder_fenced_off(
    catalog: Catalog, opened: Callable[[], Catalog]
) -> None:
    other = opened()
    with catalog.lease("view:a") as lost:
        change_row(catalog, expires_at=1)
        catalog.check_lease(lost)  # nobody else has written meanwhile
        with other.lease("view:a") as taken:
            assert taken.token == lost.token + 1
            with pytest.raises(LeaseLost, match=rf"token {lost.token}\) was lost: it is held by {taken.holder}"):
                catalog.check_lease(lost)
            with pytest.raises(LeaseLost):
                catalog.add_base_table(lost, ORDERS)
            with pytest.raises(LeaseLost):
                catalog.add_base_table([taken, lost], ORDERS)
            other.add_base_table([taken], ORDERS)
        change_row(catalog, expires_at=5)
    assert row(catalog).expires_at == 5  # the loser gave nothing back


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_sqlite_leases_run_on_the_clock_passed_in(
    catalog: Catalog, opened: Callable[[], Catalog], clock: TickingClock
) -> None:
    other = opened()
    with catalog.lease("view:a", ttl=60):
        clock.now += 59_000_000
        with pytest.raises(LeaseHeld), other.lease("view:a"):
            pass
        clock.now += 2_000_000
        with other.lease("view:a") as taken:
            assert taken.token == 2


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
def test_postgres_leases_run_on_the_clock_of_the_server(
    catalog: Catalog, opened: Callable[[], Catalog], clock: TickingClock
) -> None:
    other = opened()
    with catalog.lease("view:a", ttl=60):
        assert abs(row(catalog).expires_at - time.time_ns() // 1000 - 60_000_000) < 5_000_000
        clock.now += 10**12
        with pytest.raises(LeaseHeld), other.lease("view:a"):
            pass


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
def test_a_lease_lasts_from_when_the_write_lock_was_had_not_from_when_it_was_asked_for(catalog: Catalog) -> None:
    with catalog._database.write() as connection:
        before = catalog._database.lease_time(connection)
        time.sleep(0.05)
        assert catalog._database.lease_time(connection) - before >= 50_000


def test_a_lease_in_use_does_not_run_out(real: Catalog, url: str) -> None:
    with open_catalog(url, clock=system_clock, create=False) as other, real.lease("view:a", ttl=1.5) as lease:
        began = time.monotonic()
        while time.monotonic() - began < 3:
            with pytest.raises(LeaseHeld), other.lease("view:a"):
                pass
            time.sleep(0.1)
        real.check_lease(lease)


def test_the_heartbeat_of_a_lost_lease_ends(real: Catalog) -> None:
    with real.lease("view:a", ttl=0.3):
        change_row(real, token=50, holder="thief")
        deadline = time.monotonic() + 20
        while any(thread.name == "headwater-lease-view:a" for thread in threading.enumerate()):
            assert time.monotonic() < deadline
            time.sleep(0.02)
    assert (row(real).token, row(real).holder) == (50, "thief")


def test_a_process_is_dead_only_beyond_doubt(catalog: Catalog) -> None:
    me = Process.current()
    place, _, _ = me.identity.rpartition("/")
    reused = Process(me.host, me.pid, f"{place}/1")
    elsewhere = Process(me.host, 2**22 + 1, f"other-boot/pid:[1]/{1}")
    unknown = Process(me.host, 2**22 + 1, "")
    assert not me.is_certainly_dead()
    assert reused.is_certainly_dead()
    assert Process(me.host, 2**22 + 1, me.identity).is_certainly_dead()
    assert not elsewhere.is_certainly_dead()
    assert not unknown.is_certainly_dead()
    with catalog.lease("view:a"):
        change_row(catalog, process=elsewhere.identity, pid=elsewhere.pid)
        with pytest.raises(LeaseHeld), catalog.lease("view:a"):
            pass
        change_row(catalog, process=reused.identity, pid=reused.pid)  # our pid, but of a process before us
        with catalog.lease("view:a") as lease:
            assert lease.token == 2


def test_the_lease_of_a_killed_process_is_taken_over_at_once(real: Catalog, url: str) -> None:
    with worker("hold", url, "3600") as holder:
        assert answer(holder) == ["held", "1"]
        with pytest.raises(LeaseHeld, match=f"pid {holder.pid} on"), real.lease("view"):
            pass
        holder.send_signal(signal.SIGKILL)
        with real.lease("view", wait=20) as lease:  # not yet reaped: a zombie in the kernel's sense
            assert lease.token == 2
        holder.wait()
        with real.lease("view") as lease:
            assert lease.token == 3


def test_a_paused_process_wakes_up_fenced_off(real: Catalog, url: str) -> None:
    with real.lease("setup") as lease:
        real.add_base_table(lease, ORDERS)
    with worker("hold", url, "3") as zombie:
        assert answer(zombie) == ["held", "1"]
        zombie.send_signal(signal.SIGSTOP)
        with real.lease("view", wait=30) as lease:
            assert lease.token == 2
            zombie.send_signal(signal.SIGCONT)
            assert zombie.stdin is not None
            zombie.stdin.write("\n")
            zombie.stdin.flush()
            assert answer(zombie) == ["LEASE_LOST"]
            zombie.wait()
            real.check_lease(lease)
    assert real.base_table("orders").problem is None


@pytest.mark.parametrize("leases", [("capture", "capture"), ("capture:1", "capture:2")])
def test_two_processes_number_units_without_gap_or_duplicate(real: Catalog, url: str, leases: tuple[str, str]) -> None:
    """Under one lease, and even under two: the write lock alone keeps csns dense."""
    count = 25
    with real.lease("setup") as lease:
        real.add_base_table(lease, LINES)
        real.add_base_table(lease, replace(LINES, name="orders"))
    with (
        worker("number", url, "orders", str(count), leases[0]) as one,
        worker("number", url, "lineitem", str(count), leases[1]) as two,
    ):
        assert answer(one) == answer(two) == ["done"]
    rows = real.units()
    assert [unit.csn for unit in rows] == list(range(1, 2 * count + 1))
    assert Counter(unit.table for unit in rows) == {"orders": count, "lineitem": count}
    for table in ("orders", "lineitem"):
        assert [unit.version for unit in real.units(table)] == list(range(1, count + 1))
    assert [unit.committed_at for unit in rows] == sorted(unit.committed_at for unit in rows)


def test_threads_share_a_catalog(real: Catalog) -> None:
    with real.lease("setup") as lease:
        real.add_base_table(lease, LINES)
    failures: list[BaseException] = []

    def number() -> None:
        try:
            for _ in range(10):
                with real.lease("capture", wait=60) as lease:
                    version = real.base_table("lineitem").captured_version + 1
                    real.number_units(
                        lease, [[commit("lineitem", version, version)]], captured={"lineitem": (version, version)}
                    )
        except BaseException as error:  # noqa: BLE001
            failures.append(error)

    first = LINES.captured_version
    threads = [threading.Thread(target=number) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert [(unit.csn, unit.version) for unit in real.units()] == [(k, first + k) for k in range(1, 41)]


def test_processes_that_create_one_catalog_together_find_one_lake(url: str) -> None:
    with worker("open", url) as a, worker("open", url) as b, worker("open", url) as c:
        answers = [answer(process) for process in (a, b, c)]
    assert answers[0]
    assert answers == [answers[0]] * 3
