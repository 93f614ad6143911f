"""View staleness as it was: for every update, from its commit to the view [Mauve98 §3.1].

All of it is in the catalog: when each unit of work was committed (T_eb), when the refresh that first showed it began
(T_b) and when it was installed (T_v). A refresh that goes back shows nothing new, and one that comes forward again
shows only what the view never had: an update counts once, at its first showing.

From the same rows come the samples for the advisor: how many updates each view update held, how long it took, and over
what time they arrived.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from headwater.algebra.time import Csn
from headwater.catalog.records import RefreshRecord, UnitOfWorkRow
from headwater.serve.advisor import Advice, ViewUpdateSample, advise
from headwater.serve.chunks import updates_of
from headwater.serve.staleness import Process, Staleness, of_chunk


@dataclass(frozen=True, slots=True)
class MeasuredChunk:
    """One view update; times in seconds since 1970. ``csn`` is where it brought the view."""

    csn: Csn
    begun: float
    installed: float
    first_commit: float
    last_commit: float
    staleness: Staleness

    @property
    def seconds(self) -> float:
        return self.installed - self.begun


@dataclass(frozen=True, slots=True)
class Measured:
    """The view updates of a view that held updates, the oldest first."""

    chunks: tuple[MeasuredChunk, ...]

    @property
    def staleness(self) -> Staleness:
        return sum((chunk.staleness for chunk in self.chunks), Staleness())

    @property
    def span(self) -> float:
        """U: the time over which the updates arrived, with the silence between them."""
        if not self.chunks:
            return 0.0
        return max(chunk.last_commit for chunk in self.chunks) - min(chunk.first_commit for chunk in self.chunks)

    def samples(self) -> list[ViewUpdateSample]:
        return [ViewUpdateSample(chunk.staleness.updates, chunk.seconds) for chunk in self.chunks]

    def advice(self) -> Advice | None:
        """The chunk size of least staleness for a stream like that measured; None where nothing was."""
        if not self.chunks:
            return None
        return advise(self.staleness.updates, self.span, self.samples(), Process.CONCURRENT)


def measure(created: Csn, refreshes: Iterable[RefreshRecord], units: Sequence[UnitOfWorkRow]) -> Measured:
    """From the refreshes of one view, the oldest first, and the units of work of its tables, by csn."""
    counted = updates_of(units)
    chunks: list[MeasuredChunk] = []
    shown = created
    for refresh in refreshes:
        if refresh.csn <= shown:
            continue
        own = [(unit.committed_at / 1e6, rows) for unit, rows in counted if shown < unit.csn <= refresh.csn and rows]
        shown = refresh.csn
        if own:
            installed = refresh.finished_at / 1e6
            begun = installed - refresh.seconds
            times = [at for at, _ in own]
            staleness = of_chunk(own, begun, installed)
            chunks.append(MeasuredChunk(refresh.csn, begun, installed, min(times), max(times), staleness))
    return Measured(tuple(chunks))
