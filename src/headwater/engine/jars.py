"""The Delta Lake jars that Spark needs, fetched once into a cache of our own.

``spark.jars.packages`` would do it too, but resolves again at every session start (24 to 48 s against 10 to 14),
pulls five times as many jars, and looks into the user's Maven cache, where a pom without its jar makes it fail.
So the Ivy that ships inside pyspark is run once as a program, with settings and a cache that nobody else touches.

A download goes to a folder beside the final one and is renamed when it is whole: a process killed half-way
leaves nothing that could be taken for a set of jars, and of two processes at once one wins and the other uses
what it finds. Run ``python -m headwater.engine.jars`` to fetch ahead of time.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

from headwater.engine.java import find_java
from headwater.errors import EngineUnavailable

DELTA_VERSION = "4.4.0"
SPARK_LINE = "4.2"
SCALA_VERSION = "2.13"
_UNITY_VERSION = "0.6.0"

_ABANDONED_AFTER = 3600.0  # seconds; no download takes that long, so an older folder belongs to a dead process
_TIMEOUT = 600.0
_PARTIAL = ".download-"


@dataclass(frozen=True, slots=True)
class Jar:
    organisation: str
    name: str
    version: str

    @property
    def file_name(self) -> str:
        return f"{self.name}-{self.version}.jar"


DELTA_JARS = (
    Jar("io.delta", f"delta-spark_{SPARK_LINE}_{SCALA_VERSION}", DELTA_VERSION),
    Jar("io.delta", "delta-storage", DELTA_VERSION),
    Jar("io.delta", "delta-kernel-api", DELTA_VERSION),
    Jar("io.delta", "delta-kernel-defaults", DELTA_VERSION),
    Jar("io.delta", "delta-kernel-unitycatalog", DELTA_VERSION),
    Jar("io.unitycatalog", "unitycatalog-client", _UNITY_VERSION),
    Jar("io.unitycatalog", "unitycatalog-hadoop", _UNITY_VERSION),
)

Fetch = Callable[[Sequence[Jar], Path, Path], None]
"""Puts the jars into the first folder, using the second for scratch files."""


def cache_dir() -> Path:
    """``HEADWATER_CACHE``, else the user's cache folder."""
    if own := os.environ.get("HEADWATER_CACHE"):
        return Path(own).expanduser().absolute()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "headwater"
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "headwater"


def delta_jars(cache: Path | None = None, *, fetch: Fetch | None = None) -> list[Path]:
    """Paths of the seven jars, fetched first if they are not in the cache."""
    cache = cache_dir() if cache is None else cache
    folder = cache / "jars" / f"delta-{DELTA_VERSION}-spark-{SPARK_LINE}"
    if not _is_complete(folder):
        _download(folder, fetch or fetch_with_ivy)
    return [folder / jar.file_name for jar in DELTA_JARS]


def _is_complete(folder: Path) -> bool:
    return all((folder / jar.file_name).is_file() for jar in DELTA_JARS)


def _download(folder: Path, fetch: Fetch) -> None:
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        _sweep_abandoned(folder.parent)
        partial = Path(tempfile.mkdtemp(prefix=_PARTIAL, dir=folder.parent))
    except OSError as error:
        raise EngineUnavailable(
            f"The jar cache {folder.parent} can't be written: {error.strerror}.",
            remedy="Set HEADWATER_CACHE to a folder that can.",
        ) from error
    try:
        fresh = partial / "jars"
        fresh.mkdir()
        fetch(DELTA_JARS, fresh, partial / "scratch")
        damaged = [jar.file_name for jar in DELTA_JARS if not zipfile.is_zipfile(fresh / jar.file_name)]
        if damaged:
            raise EngineUnavailable(f"The download of the Delta Lake jars is incomplete: {', '.join(damaged)}.")
        _publish(fresh, folder, partial)
    except EngineUnavailable as error:
        error.remedy = error.remedy or _remedy(folder)
        raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _publish(fresh: Path, folder: Path, partial: Path) -> None:
    """Renames ``fresh`` to ``folder``; a complete folder that appeared meanwhile stays, an incomplete one goes."""
    for attempt in range(10):
        try:
            fresh.rename(folder)
        except OSError:
            if _is_complete(folder):
                return
            try:
                folder.rename(partial / f"replaced-{attempt}")
            except FileNotFoundError:
                continue  # another process moved it away first
        else:
            return
    raise EngineUnavailable(f"The folder {folder} can't be replaced.", remedy="Remove it and try again.")


def _sweep_abandoned(folder: Path) -> None:
    for partial in folder.glob(f"{_PARTIAL}*"):
        try:
            abandoned = time.time() - partial.stat().st_mtime > _ABANDONED_AFTER
        except FileNotFoundError:
            continue
        if abandoned:
            shutil.rmtree(partial, ignore_errors=True)


def fetch_with_ivy(jars: Sequence[Jar], target: Path, scratch: Path) -> None:
    """Runs Ivy's own command line, from the jar inside the installed pyspark."""
    java = find_java()
    scratch.mkdir(parents=True, exist_ok=True)
    settings = scratch / "ivysettings.xml"
    settings.write_text(
        '<ivysettings><settings defaultResolver="central"/>'
        f"<caches defaultCacheDir={quoteattr(str(scratch / 'cache'))}/>"
        '<resolvers><ibiblio name="central" m2compatible="true"/></resolvers></ivysettings>',
        encoding="utf-8",
    )
    module = scratch / "ivy.xml"
    dependencies = "".join(
        f'<dependency org="{jar.organisation}" name="{jar.name}" rev="{jar.version}" transitive="false"/>'
        for jar in jars
    )
    module.write_text(
        '<ivy-module version="2.0"><info organisation="headwater" module="jars"/>'
        f"<dependencies>{dependencies}</dependencies></ivy-module>",
        encoding="utf-8",
    )
    command = [str(java.executable), "-jar", str(_ivy_jar())]
    command += ["-settings", str(settings), "-ivy", str(module), "-types", "jar", "-confs", "default"]
    command += ["-retrieve", f"{target}/[artifact]-[revision].[ext]"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT, check=False)
    except subprocess.TimeoutExpired as error:
        raise EngineUnavailable(f"The Delta Lake jars did not arrive within {_TIMEOUT:.0f} s.") from error
    if done.returncode != 0:
        raise EngineUnavailable(f"The Delta Lake jars can't be fetched: {_reason(done.stdout + done.stderr)}.")


def _ivy_jar() -> Path:
    import pyspark  # here, so that only fetching pays for the import

    folder = Path(pyspark.__file__).parent / "jars"
    found = sorted(folder.glob("ivy-*.jar"))
    if not found:
        raise EngineUnavailable(
            f"The installed pyspark has no Ivy jar in {folder}.",
            remedy="Install pyspark from its own package, or put the Delta Lake jars into the cache yourself.",
        )
    return found[-1]


def _reason(output: str) -> str:
    """The line of Ivy's report that says most."""
    lines = [line.strip(" \t:") for line in output.splitlines()]
    for sign in ("UnknownHostException", "ConnectException", "timed out", "SSL", "UNRESOLVED", "not found", "ERROR"):
        for line in lines:
            if sign in line:
                return line[:200]
    return next((line for line in reversed(lines) if line), "Ivy said nothing")[:200]


def _remedy(folder: Path) -> str:
    names = ", ".join(jar.file_name for jar in DELTA_JARS)
    return (
        "Check the network (behind a proxy: JAVA_TOOL_OPTIONS='-Dhttps.proxyHost=... -Dhttps.proxyPort=...') "
        f"and try again, or copy these files into {folder}: {names}."
    )


def main() -> int:
    begun = time.monotonic()
    try:
        paths = delta_jars()
    except EngineUnavailable as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{len(paths)} Delta Lake jars in {paths[0].parent} ({time.monotonic() - begun:.1f} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
