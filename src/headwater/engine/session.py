"""The embedded Spark session, and what a session of the user's own must bring.

A lake that is given no session starts ``local_session``. A session of another making (a cluster, Spark Connect) is
taken as it is, once ``require_delta`` has seen that it can read and write Delta tables; ``delta_configuration``
is what to start it with. The session time zone is the user's and is left alone: Headwater keeps its own times as UTC
microseconds.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.engine.jars import DELTA_VERSION, delta_jars
from headwater.engine.java import find_java
from headwater.errors import EngineUnavailable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
_CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
_LOGGING = Path(__file__).with_name("log4j2.properties")
_GIB = 1024**3

# Whether Spark writes code, which is its default, for whole stages and, in each task anew, for what surrounds them (the
# keys of a shuffle, the statistics of a file, the objects of a Delta log). For few rows that is most of what a task
# does; without it a row takes some two microseconds, ten times as long.
CODE = "spark.sql.codegen.factoryMode"
NO_CODE = "NO_CODEGEN"
TINY_DATA = {"spark.sql.codegen.wholeStage": "false", CODE: NO_CODE}


def delta_configuration(*, jars: bool = True) -> dict[str, str]:
    """The Spark settings without which no Delta table can be written.

    For a cluster or Connect server that has Delta Lake installed, ask for them without ``jars``.
    """
    configuration = {"spark.sql.extensions": _EXTENSION, "spark.sql.catalog.spark_catalog": _CATALOG}
    if jars:
        configuration["spark.jars"] = ",".join(str(path) for path in delta_jars())
    return configuration


def local_configuration(*, master: str = "local[*]", memory: str | None = None) -> dict[str, str]:
    """The settings of the embedded session."""
    configuration = delta_configuration()
    configuration |= {
        # Delta replays a table's log with 50 partitions unless told; for logs of local size that is all overhead
        # (a MERGE takes 12-14 CPU seconds with 50, 4-5.5 with 2).
        "spark.databricks.delta.snapshotPartitions": "2",
        # 200 partitions by default: a join of three tiny tables takes three times as long as with 4.
        "spark.sql.shuffle.partitions": str(max(4, cores())),
        # Generated code is compiled once and found again by its text; Spark remembers 100 of them by default. Refreshes
        # have more than that, and each compiled all of its own anew (TPC-H Q5 at 0.01: 10 s with 100, 7 s with 3,000).
        "spark.sql.codegen.cache.maxEntries": "3000",
        # Spark remembers the plans of 1,000 statements for a web page that nobody sees; ours are large.
        "spark.sql.ui.retainedExecutions": "50",
        # No web server, no progress bars written across ours.
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Spark's log level for a terminal is ours to choose; a file named in extraJavaOptions comes later and wins.
        # Refreshes of many views fill the half of Java's code cache (240 MB) that is for code still being measured;
        # then what was compiled is thrown away and compiled again.
        "spark.driver.defaultJavaOptions": f"-Dlog4j2.configurationFile={_LOGGING.as_uri()} "
        "-XX:ReservedCodeCacheSize=512m",
        # In local mode the driver is the executor too; Spark's default of 1 GiB takes no account of the machine.
        "spark.driver.memory": memory or _default_memory(),
    }
    if master.startswith("local"):
        # One process: nothing outside this machine has to reach it, and a VPN that renames the host does no harm.
        configuration |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return configuration


def local_session(
    app_name: str = "headwater",
    *,
    master: str = "local[*]",
    memory: str | None = None,
    extra: Mapping[str, str] | None = None,
) -> SparkSession:
    """A Spark session with Delta Lake; the running one if this process has one already.

    ``extra`` overrides any setting. Start one and keep it: the first use of each kind of statement costs seconds.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    try:
        running = SparkSession.active()
    except PySparkException:
        pass
    else:
        require_delta(running)
        return running

    java = find_java()
    # Spark's launcher takes JAVA_HOME, else the first java on PATH, even one that is too old.
    os.environ["JAVA_HOME"] = str(java.home)
    # Python workers must be this interpreter, not whatever `python3` is on PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")

    builder = SparkSession.builder.appName(app_name).master(master)
    for key, value in (local_configuration(master=master, memory=memory) | dict(extra or {})).items():
        builder = builder.config(key, value)
    try:
        session = builder.getOrCreate()
    except (PySparkException, RuntimeError, OSError) as error:
        raise EngineUnavailable(
            f"Spark does not start with master {master}: {_first_line(error)}.",
            remedy=f"Java {java.version} at {java.home} was used; what Spark wrote above says more.",
        ) from error
    require_delta(session)
    return session


def require_delta(session: SparkSession) -> None:
    """Refuses a session without Delta Lake now, rather than at the first write."""
    extensions = session.conf.get("spark.sql.extensions", "") or ""
    catalog = session.conf.get("spark.sql.catalog.spark_catalog", "") or ""
    if _EXTENSION in extensions and catalog == _CATALOG:
        return
    raise EngineUnavailable(
        "The Spark session has no Delta Lake: spark.sql.extensions or spark.sql.catalog.spark_catalog is missing.",
        remedy="Start it with the settings of headwater.engine.session.delta_configuration(), or stop it and let "
        "Headwater start its own.",
    )


def describe_machine(session: SparkSession | None = None) -> dict[str, Any]:
    """What a figure was measured on."""
    import pyspark

    java = find_java()
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "cores": cores(),
        "memory_gib": round(_memory_bytes() / _GIB, 1),
        "python": platform.python_version(),
        "java": java.version,
        "spark": session.version if session is not None else pyspark.__version__,
        "delta": DELTA_VERSION,
        "master": session.conf.get("spark.master", "unknown") if session is not None else None,
        "load": round(os.getloadavg()[0], 2),
    }


def cores() -> int:
    """Cores that this process may use, which in a container are fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _default_memory() -> str:
    """A quarter of the memory, between 1 and 8 GiB: the machine is the user's, not ours."""
    return f"{min(8, max(1, round(_memory_bytes() / _GIB / 4)))}g"


def _memory_bytes() -> int:
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii").strip()
    except OSError:
        return physical
    return min(physical, int(limit)) if limit.isdigit() else physical


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")


__all__ = [
    "CODE",
    "NO_CODE",
    "TINY_DATA",
    "cores",
    "delta_configuration",
    "describe_machine",
    "local_configuration",
    "local_session",
    "require_delta",
]
