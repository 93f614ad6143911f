"""A driver in a process of its own, for tests that need one to compete with, to pause or to kill.

Prints one word a line; waits for a line on standard input where a test must act first.
"""

from __future__ import annotations

import sys
import time

from tests.catalog.worlds import commit

from headwater.catalog import open_catalog, system_clock
from headwater.errors import HeadwaterError


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def main(task: str, url: str, *arguments: str) -> None:
    catalog = open_catalog(url, clock=system_clock, create=True)
    match task:
        case "open":
            say(catalog.lake().lake_id)
        case "number":
            table, count = arguments[0], int(arguments[1])
            for version in range(1, count + 1):
                with catalog.lease(arguments[2], wait=60) as lease:
                    at = time.time_ns() // 1000
                    catalog.number_units(lease, [[commit(table, version, at)]], captured={table: (version, at)})
            say("done")
        case "hold":
            with catalog.lease("view", ttl=float(arguments[0])) as lease:
                say("held", lease.token)
                sys.stdin.readline()
                try:
                    catalog.set_table_problem(lease, "orders", {"written by": "the zombie"})
                    say("wrote")
                except HeadwaterError as error:
                    say(error.code)


if __name__ == "__main__":
    main(*sys.argv[1:])
