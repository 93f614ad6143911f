"""What may stand in OPTIONS of CREATE and ALTER MATERIALIZED VIEW, and what it means for a view."""

from __future__ import annotations

import re
from collections.abc import Mapping

from headwater.algebra.plan import LeafId
from headwater.algebra.time import Csn
from headwater.calibration import timed_capture
from headwater.catalog.records import Layout, LeafRecord, Method, ViewRecord
from headwater.context import Context
from headwater.definition import Definition
from headwater.errors import InvalidInput
from headwater.measured import gather, require_feasible
from headwater.propagate.choosing import Wanted
from headwater.refresh import Policy
from headwater.schedule.service_level import OPTIONS as SERVICE_OPTIONS
from headwater.schedule.service_level import POLICIES, ServiceLevel
from headwater.serve.chunks import wanted_chunk

METHODS: dict[str, Method] = {"frontier": "frontier", "propagate": "propagate", "rolling": "rolling"}
OPTIONS = frozenset({"chunk_size", "layout", "method", "refresh", "strategy", "width", *SERVICE_OPTIONS})
LAYOUTS: dict[str, Layout] = {"current": "current", "timeline": "timeline"}
_CAPTURES = 2
_WIDTH = re.compile(r"(\d+)\s*(rows?|csns?)", re.IGNORECASE)


def settings_of(
    context: Context, options: Mapping[str, str], definition: Definition, csn: Csn
) -> tuple[tuple[LeafRecord, ...], Method]:
    """The options that are ours: ``width``, ``width.<leaf>`` and ``method``; of the others that they are known."""
    aliases = {scan.alias.lower() for scan in definition.leaves}
    for key in options:
        known = key in OPTIONS or (key.startswith("width.") and key[6:] in aliases)
        if not known:
            raise InvalidInput(
                f"Unknown option {key!r}.",
                remedy=f"Options are refresh ({', '.join(each.value for each in Policy)}), method "
                f"({', '.join(METHODS)}), strategy ({', '.join(each.value for each in Wanted)}), "
                f"layout ({', '.join(LAYOUTS)}), chunk_size ('10000' or 'auto'), "
                "width and width.<leaf> ('1000 rows' or '5 csn'), response_time and "
                f"max_staleness ('10s'), policy ({', '.join(POLICIES)}), priority; "
                f"leaves are {', '.join(sorted(aliases))}.",
            )
    wanted_chunk(options)
    ServiceLevel.of(options)
    live = [name for name in definition.tables if context.catalog.base_table(name).mode == "live"]
    wanted_method = options.get("method", "rolling" if live else "frontier").lower()
    if wanted_method not in METHODS:
        raise InvalidInput(f"Unknown method {wanted_method!r}.", remedy=f"Use one of {', '.join(METHODS)}.")
    method = METHODS[wanted_method]
    Wanted.of(options)
    if method != "frontier" and "strategy" in options:
        raise InvalidInput(
            f"Method {wanted_method!r} has no strategies.", remedy="Leave the method or the strategy out."
        )
    if method != "frontier" and (definition.nodes or definition.views):
        raise InvalidInput(
            f"Method {wanted_method!r} is for select-project-join over tables"
            + (f", and {', '.join(live)} is tracked as live." if live else "."),
            remedy="Leave the method out" + (", and track the table as versioned." if live else "."),
        )
    if live and method == "frontier":
        raise InvalidInput(
            f"Method 'frontier' reads the past, and {', '.join(live)} is tracked as live.",
            remedy="Leave the method out, or track the table as versioned.",
        )
    records = []
    for number, scan in enumerate(definition.leaves):
        wanted = options.get(f"width.{scan.alias.lower()}", options.get("width"))
        kind, value = parse_width(wanted) if wanted is not None else (None, None)
        records.append(LeafRecord(LeafId(number), scan.alias, scan.table, csn, csn, kind, value))
    return tuple(records), method


def layout_of(options: Mapping[str, str]) -> Layout:
    """The option ``layout``: how the view's table holds it."""
    wanted = options.get("layout", "current").lower()
    if wanted not in LAYOUTS:
        raise InvalidInput(f"Unknown layout {wanted!r}.", remedy=f"Use one of {', '.join(LAYOUTS)}.")
    return LAYOUTS[wanted]


def parse_width(text: str) -> tuple[str, int]:
    found = _WIDTH.fullmatch(text.strip())
    if found is None or int(found[1]) < 1:
        raise InvalidInput(f"{text!r} is not a width.", remedy="Say '1000 rows' or '5 csn'.")
    return ("rows" if found[2].lower().startswith("row") else "csn"), int(found[1])


def require_promise(context: Context, options: Mapping[str, str], view: ViewRecord | None, name: str) -> None:
    """Refuse a response time that can't be kept; None is a view that was never measured."""
    level = ServiceLevel.of(options)
    if level.response_time is None:
        return
    for _ in range(_CAPTURES):  # the first of a process says little
        if context.catalog.cheapest_seconds("capture") is None:
            timed_capture(context)
    if view is not None:
        gather(context.catalog, view)
    require_feasible(context.catalog, level, view, name)
