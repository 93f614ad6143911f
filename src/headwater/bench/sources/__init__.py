"""What PostgreSQL sources are asked for, and what following them costs them.

*Asking.* A view joins three tables of two databases in mode ``query``. For changes of several sizes its refresh is set
beside one that ships the tables that changed rows are joined with whole: sub-queries, rows shipped, seconds. The
larger the tables, the more the one saves; the other ships all of them each time. Beside both, changes that the view's
own rows answer for.

*Load.* The server's own transaction rate under its own ``pgbench`` and the CPU seconds of a transaction: alone; with
all that following needs and nobody who reads (whole old rows in the log, a publication, a slot); and with a thread that
reads, decodes and confirms all there is, and looks again after five seconds, as capture does. Reader and server share
the machine, so the reader gives way as ``headwater run --nice 20`` does; its connection, in which the server decodes
the log, does not.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from headwater.bench.postgres_server import running_postgres
from headwater.bench.report import Target, at_least, at_most, write
from headwater.bench.sources import asking, load
from headwater.bench.sources.picture import draw
from headwater.engine.session import describe_machine, local_session

KEPT = 0.95
SHIPPED = 0.1
ORDERS = 200_000
SETTINGS = {
    "max_replication_slots": "5",
    "synchronous_commit": "on",
    "fsync": "on",
    "full_page_writes": "on",
    "shared_buffers": "256MB",
}


def run(
    *,
    sf: float | None,
    json_path: Path | None,
    progress: Callable[[str], None],
    parts: tuple[str, ...] = ("load", "asking"),
) -> dict[str, Any]:
    rows = int(ORDERS * (sf or 1))
    figures: dict[str, Any] = {}
    targets: list[Target] = []
    with ExitStack() as stack:
        one = stack.enter_context(running_postgres(SETTINGS))
        if "load" in parts:  # before Spark is there to disturb it
            figures["load"] = load.measure(one, progress)
            targets.append(at_least("transaction rate that a followed server keeps", KEPT, figures["load"]["kept"]))
        spark = local_session("headwater-bench", master="local[2]", memory="3g")
        if "asking" in parts:
            two = stack.enter_context(running_postgres(SETTINGS))
            folder = Path(tempfile.mkdtemp(prefix="headwater-sources-"))
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            figures["view"] = asking.VIEW
            figures["data"] = {"orders": rows, "customers": rows // 10, "shipments": rows}
            figures["asking"] = asking.measure(spark, folder, (one, two), rows, progress)
            targets += _of_asking(figures["asking"])
        machine = describe_machine(spark)
    report = {
        "benchmark": "sources",
        "command": f"headwater bench sources --parts {','.join(parts)}",
        "machine": machine,
        **figures,
    }
    if json_path is not None:
        draw(figures.get("asking", []), figures.get("load"), json_path.with_suffix(".svg"))
    return write(json_path, report, targets)


def _of_asking(found: list[dict[str, Any]]) -> list[Target]:
    targets = []
    for each in found:
        name = f"rows shipped for {each['changed']} changed rows / rows of the tables asked"
        targets.append(at_most(name, SHIPPED, each["by_keys"]["rows"] / max(1, each["whole"]["rows"])))
        name = f"sub-queries for {each['changed']} changed rows that the view answers for"
        targets.append(at_most(name, 0, each["own"]["queries"]))
    return targets
