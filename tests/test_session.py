"""The embedded session: its Java, its jars, its settings."""

from __future__ import annotations

import os
import threading
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from headwater.engine import java as java_module
from headwater.engine.jars import DELTA_JARS, DELTA_VERSION, Jar, cache_dir, delta_jars, fetch_with_ivy
from headwater.engine.java import Java, candidate_paths, find_java, probe
from headwater.engine.session import delta_configuration, describe_machine, local_configuration, local_session
from headwater.errors import EngineUnavailable
from tests.support.bags import assert_bag_equal
from tests.support.smoke import delta_round_trip


def write_jars(jars: Sequence[Jar], target: Path, scratch: Path) -> None:
    for jar in jars:
        with zipfile.ZipFile(target / jar.file_name, "w") as file:
            file.writestr("content", jar.name)


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


class Counting:
    """A fetch that counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, jars: Sequence[Jar], target: Path, scratch: Path) -> None:
        self.calls += 1
        write_jars(jars, target, scratch)


class TestJars:
    def test_are_fetched_once(self, tmp_path: Path) -> None:
        fetch = Counting()
        first = delta_jars(tmp_path, fetch=fetch)
        assert delta_jars(tmp_path, fetch=fetch) == first
        assert fetch.calls == 1
        assert [path.name for path in first] == [jar.file_name for jar in DELTA_JARS]
        assert all(path.is_file() for path in first)
        assert names(tmp_path / "jars") == [first[0].parent.name]  # no scratch files stay

    def test_a_download_that_dies_leaves_nothing_that_counts(self, tmp_path: Path) -> None:
        def dies(jars: Sequence[Jar], target: Path, scratch: Path) -> None:
            write_jars(jars[:3], target, scratch)
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            delta_jars(tmp_path, fetch=dies)
        assert names(tmp_path / "jars") == []
        assert len(delta_jars(tmp_path, fetch=write_jars)) == 7

    def test_what_a_killed_process_left_is_ignored_and_swept_later(self, tmp_path: Path) -> None:
        left = tmp_path / "jars" / ".download-dead"
        (left / "jars").mkdir(parents=True)
        recent = tmp_path / "jars" / ".download-alive"
        recent.mkdir()
        two_hours_ago = time.time() - 7200
        os.utime(left, (two_hours_ago, two_hours_ago))
        delta_jars(tmp_path, fetch=write_jars)
        assert not left.exists()
        assert recent.exists()

    @pytest.mark.parametrize("content", [None, b"", b"<html>an error page</html>"])
    def test_an_incomplete_download_is_refused(self, tmp_path: Path, content: bytes | None) -> None:
        def fetch(jars: Sequence[Jar], target: Path, scratch: Path) -> None:
            write_jars(jars, target, scratch)
            last = target / jars[-1].file_name
            last.unlink() if content is None else last.write_bytes(content)

        with pytest.raises(EngineUnavailable, match=DELTA_JARS[-1].file_name) as caught:
            delta_jars(tmp_path, fetch=fetch)
        assert "copy these files" in (caught.value.remedy or "")
        assert names(tmp_path / "jars") == []

    def test_a_folder_that_lost_a_jar_is_replaced(self, tmp_path: Path) -> None:
        delta_jars(tmp_path, fetch=write_jars)[2].unlink()
        assert all(path.is_file() for path in delta_jars(tmp_path, fetch=write_jars))

    def test_two_at_once_both_get_a_whole_set(self, tmp_path: Path) -> None:
        meet = threading.Barrier(2)
        results: list[list[Path]] = []

        def slow(jars: Sequence[Jar], target: Path, scratch: Path) -> None:
            write_jars(jars, target, scratch)
            meet.wait(timeout=10)  # both have downloaded before either publishes

        threads = [threading.Thread(target=lambda: results.append(delta_jars(tmp_path, fetch=slow))) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=30)
        assert len(results) == 2
        assert results[0] == results[1]
        assert all(path.is_file() for path in results[0])

    def test_offline_says_what_to_do(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        # A proxy that refuses connections stands for a missing network.
        monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=9")
        with pytest.raises(EngineUnavailable, match="can't be fetched") as caught:
            delta_jars(tmp_path, fetch=fetch_with_ivy)
        assert "Check the network" in (caught.value.remedy or "")
        assert names(tmp_path / "jars") == []

    def test_a_cache_that_cannot_be_written(self, tmp_path: Path) -> None:
        (tmp_path / "jars").write_text("a file where the folder should be")
        with pytest.raises(EngineUnavailable, match="can't be written") as caught:
            delta_jars(tmp_path, fetch=write_jars)
        assert "HEADWATER_CACHE" in (caught.value.remedy or "")

    def test_the_cache_can_be_placed(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("HEADWATER_CACHE", str(tmp_path))
        assert cache_dir() == tmp_path
        monkeypatch.delenv("HEADWATER_CACHE")
        assert cache_dir().name == "headwater"


def fake_java(folder: Path, version_line: str, *, modules: bool = True) -> Path:
    executable = folder / "bin" / "java"
    executable.parent.mkdir(parents=True)
    refuse = "" if modules else '[ "$1" = --add-modules ] && exit 1\n'
    executable.write_text(f"#!/bin/sh\n{refuse}echo '{version_line}' >&2\n")
    executable.chmod(0o755)
    return executable


class TestJava:
    @pytest.mark.parametrize(
        ("line", "expected"),
        [
            ('openjdk version "17.0.15" 2025-04-15', (17, "17.0.15")),
            ('openjdk version "21" 2023-09-19', (21, "21")),
            ('openjdk version "25-ea" 2025-09-16', (25, "25-ea")),
        ],
    )
    def test_version_is_read(self, tmp_path: Path, line: str, expected: tuple[int, str]) -> None:
        found = probe(fake_java(tmp_path, line))
        assert isinstance(found, Java)
        assert (found.major, found.version) == expected
        assert found.home == tmp_path.resolve()

    def test_old_and_slim_ones_are_passed_over(self, tmp_path: Path) -> None:
        old = fake_java(tmp_path / "old", 'java version "1.8.0_391"')
        slim = fake_java(tmp_path / "slim", 'openjdk version "21.0.1"', modules=False)
        good = fake_java(tmp_path / "good", 'openjdk version "17.0.9"')
        assert find_java([old, slim, good]).executable == good
        with pytest.raises(EngineUnavailable) as caught:
            find_java([old, slim, tmp_path / "nothing"])
        message = str(caught.value)
        assert "is version 8.0_391" in message
        assert "lacks the module jdk.incubator.vector" in message
        assert "does not run" in message
        assert "openjdk-17-jre-headless" in message

    def test_the_users_choice_comes_first(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(java_module, "_INSTALLED_UNDER", ())
        home = fake_java(tmp_path / "home", 'openjdk version "17"')
        on_path = fake_java(tmp_path / "path", 'openjdk version "17"')
        environ = {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(on_path.parent)}
        assert list(candidate_paths(environ)) == [home, on_path]
        assert list(candidate_paths({"PATH": str(home.parent), "JAVA_HOME": str(tmp_path / "home")})) == [home]
        assert list(candidate_paths({"PATH": ""})) == []


class TestSettings:
    def test_what_a_session_of_ones_own_needs(self) -> None:
        assert "spark.jars" not in delta_configuration(jars=False)
        assert len(delta_configuration()["spark.jars"].split(",")) == 7

    def test_only_a_local_session_is_bound_to_loopback(self) -> None:
        assert local_configuration()["spark.driver.bindAddress"] == "127.0.0.1"
        assert "spark.driver.bindAddress" not in local_configuration(master="spark://somewhere:7077")
        assert local_configuration(memory="3g")["spark.driver.memory"] == "3g"

    def test_the_time_zone_is_the_users(self) -> None:
        assert "spark.sql.session.timeZone" not in local_configuration()


class TestSession:
    def test_delta_works(self, spark, tmp_path: Path) -> None:
        delta_round_trip(spark, tmp_path)

    def test_a_running_session_is_used(self, spark) -> None:
        found: list[object] = [local_session()]
        other = threading.Thread(target=lambda: found.append(local_session()))
        other.start()
        other.join()
        assert all(session is spark for session in found)

    def test_the_machine_is_described(self, spark) -> None:
        machine = describe_machine(spark)
        assert machine["spark"] == spark.version
        assert machine["delta"] == DELTA_VERSION
        assert machine["cores"] >= 1


class TestBags:
    def test_equal_bags(self, spark) -> None:
        rows = "VALUES (1, NULL), (1, NULL), (NULL, 'x')"
        assert_bag_equal(spark.sql(f"SELECT * FROM {rows} AS v(a, b)"), spark.sql(f"SELECT * FROM {rows} AS v(a, b)"))

    def test_both_kinds_of_difference_are_shown(self, spark) -> None:
        actual = spark.sql("SELECT * FROM VALUES (1, 'x'), (1, 'x'), (2, NULL) AS v(a, b)")
        expected = spark.sql("SELECT * FROM VALUES (1, 'x'), (2, NULL), (2, NULL), (3, 'z') AS v(a, b)")
        with pytest.raises(AssertionError) as caught:
            assert_bag_equal(actual, expected, label="v")
        message = str(caught.value)
        assert "surplus 1 x (a=1, b='x')" in message
        assert "missing 1 x (a=2, b=None)" in message
        assert "missing 1 x (a=3, b='z')" in message

    @pytest.mark.parametrize("other", ["1L AS a", "1 AS b", "1 AS a, 2 AS b"])
    def test_schemas_count(self, spark, other: str) -> None:
        with pytest.raises(AssertionError, match="schemas differ"):
            assert_bag_equal(spark.sql("SELECT 1 AS a"), spark.sql(f"SELECT {other}"))
