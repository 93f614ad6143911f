"""Retention and garbage collection as the lake offers them: settings in people's units, reports with names."""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import timedelta
from typing import Literal

from headwater.catalog.records import ReleaseRecord, RetentionSettings
from headwater.catalog.store import Catalog
from headwater.context import Context
from headwater.errors import InvalidInput
from headwater.moments import from_micros
from headwater.serve.collecting import DEFAULT_GRACE
from headwater.serve.garbage import collect
from headwater.serve.retention import Keep
from headwater.serve.sweeping import SparkSweeper
from headwater.values import CollectionReport, ReaderStatus, Release, RetentionReport

_PATIENCE = 5.0


def release_value(catalog: Catalog, release: ReleaseRecord) -> Release:
    names = {view.view_id: view.name for view in catalog.views()}
    versions = {names[view.view_id]: view.version for view in release.views if view.view_id in names}
    return Release(release.csn, from_micros(release.published_at), versions, tuple(sorted(release.tags)))


def retention_report(catalog: Catalog) -> RetentionReport:
    settings, horizon = catalog.retention(), catalog.horizon()
    return RetentionReport(
        settings.count,
        settings.age / 1e6,
        None if settings.tags is None else tuple(sorted(settings.tags)),
        horizon.kept_from,
        tuple(sorted(horizon.pinned)),
        tuple(
            ReaderStatus(lease.csn, lease.holder, from_micros(lease.opened_at), from_micros(lease.expires_at))
            for lease in catalog.readers()
        ),
    )


def change_retention(
    catalog: Catalog,
    *,
    count: int | None,
    age: float | timedelta | None,
    tags: Iterable[str] | Literal["any"] | None,
) -> None:
    before = catalog.retention()
    seconds = age.total_seconds() if isinstance(age, timedelta) else age
    if isinstance(tags, str) and tags != "any":
        raise InvalidInput(f"{tags!r} is not a list of tags.", remedy=f"Give a list, as [{tags!r}], or 'any'.")
    wanted = RetentionSettings(
        before.count if count is None else count,
        before.age if seconds is None else round(seconds * 1e6),
        before.tags if tags is None else None if tags == "any" else frozenset(tags),
    )
    Keep(wanted.count, wanted.age, wanted.tags)  # refuses what can't be kept
    catalog.set_retention(wanted)


def collect_garbage(context: Context, grace: float | None) -> CollectionReport:
    if grace is not None and not grace >= 0:
        raise InvalidInput(f"A grace of {grace} seconds can't be given.", remedy="Give 0 or more seconds.")
    started = time.monotonic()
    before = {release.csn for release in context.catalog.releases()}
    found = collect(
        context.catalog,
        SparkSweeper(context),
        clock=context.clock,
        grace=DEFAULT_GRACE if grace is None else round(grace * 1e6),
        wait=context.lease_wait,
        patience=_PATIENCE,
        reached=context.reached,
        progress=context.progress,
    )
    horizon = found.plan.horizon
    gone = before - {release.csn for release in context.catalog.releases()}
    return CollectionReport(
        horizon.kept_from,
        tuple(sorted(horizon.pinned)),
        tuple(sorted(gone)),
        found.views,
        found.busy,
        time.monotonic() - started,
    )
