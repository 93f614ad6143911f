"""Applying to a view of the layout ``timeline``: rows with the time for which they stood in the view [Mauve98 §2.1].

``headwater.serve.timeline`` is the specification, ``headwater.sql.timeline`` has the statements; here is when each is
run. Forward over an interval of the view delta is one MERGE that ends runs and begins others, back is one that takes
the later ones away and opens the earlier ones again. Both are one Delta commit, tagged as any other of the apply
driver, which also records the step before and after: exactly once is its affair, and the same for both layouts.

A chunk changes nothing at or before the csn at which it began, so readers of these moments need not even pin a
version to be undisturbed; they do, because a crash or a recomputation may begin the table anew.

A recomputation begins the timeline anew at its csn: how the rows changed on the way there is not known. The past is
then read from the versions that releases hold.
"""

from __future__ import annotations

from headwater.algebra.time import Csn, Interval
from headwater.catalog.records import Columns, ViewRecord
from headwater.context import Context
from headwater.engine.spark import CommitTag, Written
from headwater.sql.storage import add_constraint_sql
from headwater.sql.timeline import T_MAX, T_MIN, create_timeline_sql, install_sql, rewind_sql


def create_timeline(
    context: Context, location: str, columns: Columns, cluster_by: tuple[str, ...], properties: dict[str, str]
) -> None:
    text = create_timeline_sql(location, columns, cluster_by=cluster_by, properties=properties)
    context.engine.run(text, f"creating {location}")
    # A run that is visible at no moment is the mark of a wrong view delta, as a count below one is.
    lasts = f"{T_MAX} IS NULL OR {T_MAX} > {T_MIN}"
    context.engine.run(add_constraint_sql(location, "hw_lasts", lasts), f"guarding {location}")


def install(context: Context, view: ViewRecord, interval: Interval, sign: int, tag: CommitTag) -> Written | None:
    """Bring a timeline over an interval of its view delta, forward or (``sign`` below zero) back."""
    names = [name for name, _ in view.stored]
    if sign > 0:
        text = install_sql(view.location, view.version, view.delta_location, interval, names)
    else:
        text = rewind_sql(view.location, Csn(interval.start))
    return context.engine.merge(text, tag, f"applying {interval} to {view.name}")
