"""A view's staleness, from the catalog: measured, predicted, and the chunk size that would make it least."""

from __future__ import annotations

from collections.abc import Iterable

from headwater.catalog.records import ViewRecord
from headwater.catalog.store import Catalog
from headwater.definition import Definition, base_tables_of
from headwater.moments import from_micros
from headwater.serve.advisor import Candidate
from headwater.serve.measured import Measured, MeasuredChunk, measure
from headwater.serve.staleness import Staleness
from headwater.values import ChunkPrediction, MeasuredRefresh, MeasuredStaleness, StalenessReport

RECENT = 100  # refreshes that are looked at


def measured_of(catalog: Catalog, view: ViewRecord, limit: int = RECENT) -> Measured:
    refreshes = [each for each in catalog.refreshes(view.name, limit=limit) if each.view_id == view.view_id][::-1]
    if not refreshes:
        return Measured(())
    tables = base_tables_of(catalog, Definition.load(view))
    start = min(refresh.from_csn for refresh in refreshes)
    units = [unit for unit in catalog.units(start=start) if unit.table in tables]
    return measure(start, refreshes, units)


def advised_chunk(catalog: Catalog, view: ViewRecord) -> int | None:
    """The chunk size of least predicted staleness; None before anything was measured."""
    advice = measured_of(catalog, view).advice()
    return None if advice is None else advice.chosen.chunk


def staleness_report(catalog: Catalog, view: ViewRecord) -> StalenessReport:
    found = measured_of(catalog, view)
    advice = found.advice()
    return StalenessReport(
        view.name,
        averaged(found.staleness),
        found.span,
        tuple(_refresh(chunk) for chunk in found.chunks),
        () if advice is None else _by_chunk_size(advice.candidates),
        None if advice is None else _prediction(advice.chosen),
    )


def averaged(staleness: Staleness) -> MeasuredStaleness | None:
    if not staleness.updates:
        return None
    return MeasuredStaleness(staleness.updates, staleness.s1, staleness.s2, staleness.vs, staleness.worst)


def _refresh(chunk: MeasuredChunk) -> MeasuredRefresh:
    own = chunk.staleness
    installed_at = from_micros(round(chunk.installed * 1e6))
    return MeasuredRefresh(chunk.csn, installed_at, own.updates, chunk.seconds, own.s1, own.s2, own.vs)


def _by_chunk_size(candidates: Iterable[Candidate]) -> tuple[ChunkPrediction, ...]:
    """By falling size. Of a few updates many frequencies have one chunk size; the best of them stands for it."""
    best: dict[int, ChunkPrediction] = {}
    for candidate in candidates:
        found = _prediction(candidate)
        if found.chunk_size not in best or found.vs < best[found.chunk_size].vs:
            best[found.chunk_size] = found
    return tuple(best.values())


def _prediction(candidate: Candidate) -> ChunkPrediction:
    found = candidate.prediction
    return ChunkPrediction(candidate.chunk, found.s1, found.s2, found.vs)
