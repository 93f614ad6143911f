"""A change taken apart by the fate of its keys, on Spark (``headwater.propagate.fates``).

The changes of each referred table are kept once with the fate of their keys; a piece of them is a selection of that. In
a query a piece stands under an alias of its own, with the table's own name, so that sizes and states are the table's
and only its changes are the piece's. Pieces without rows are known before any query runs: a query about one is not run,
and a table that has only such pieces is read as it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqlglot import exp

from headwater.algebra.apart import with_scans
from headwater.algebra.plan import Scan, scans
from headwater.algebra.query import BaseDelta, Patched, Query, Snapshot, Term
from headwater.algebra.time import Interval
from headwater.definition import Definition
from headwater.propagate.fates import Piece, PiecedDelta
from headwater.propagate.stepping import Prepared, Stepping
from headwater.sql.dialect import quoted, to_text
from headwater.sql.fates import fated_changes, of_fates
from headwater.sql.plain_types import is_plain_type
from headwater.sql.relations import COUNT, CSN, Sources, changes_of


def prepared_by_fates(delta: PiecedDelta, definition: Definition, sources: Sources, stepping: Stepping) -> Prepared:
    """The queries of a change by fates, with their pieces kept."""
    keys = {(piece.table, piece.key): piece for piece in delta.pieces}
    fated = stepping.stage_leaves(
        {place: to_text(_fated(*place, delta.interval, definition, sources)) for place in keys}
    )
    columns = {table: definition.used_columns(table) for table, _ in keys}
    texts = {
        (piece.name, delta.interval): to_text(
            of_fates(fated[piece.table, piece.key].name, columns[piece.table], [fate.value for fate in piece.fates])
        )
        for piece in delta.pieces
    }
    found = stepping.stage_leaves(texts)
    rows = {name: kept.rows for (name, _), kept in found.items()}
    pieces = {piece.name: piece for piece in delta.pieces}
    queries = [left for query in delta.queries if (left := in_place(query, pieces, rows)) is not None]
    named = {
        (scan.alias, delta.interval): found[piece.name, delta.interval].name
        for query in queries
        for scan in scans(query.plan)
        for piece in delta.pieces
        if scan.alias.endswith(_suffix(piece)) and scan.table == piece.table
    }
    return stepping.prepared(queries, replace(sources, changed={**sources.changed, **named}))


def in_place(query: Query, pieces: Mapping[str, Piece], rows: Mapping[str, int]) -> Query | None:
    """The query with its pieces under aliases of their own; None if it is about a piece without rows."""
    terms: list[Term] = list(query.terms)
    changed: dict[str, Scan] = {}
    for scan in scans(query.plan):
        piece = pieces.get(scan.table)
        if piece is None:
            continue
        own = replace(scan, table=piece.table, alias=scan.alias + _suffix(piece))
        if not rows[piece.name]:
            match terms[scan.leaf]:
                case BaseDelta():
                    return None
                case Patched(interval=interval):
                    terms[scan.leaf] = Snapshot(interval.start)
                    own = replace(scan, table=piece.table)
                case _:
                    pass
        changed[scan.alias] = own
    return replace(query, plan=with_scans(query.plan, changed), terms=tuple(terms))


def _suffix(piece: Piece) -> str:
    return piece.name.removeprefix(piece.table)


def _fated(table: str, key: tuple[str, ...], interval: Interval, definition: Definition, sources: Sources) -> exp.Query:
    columns = definition.used_columns(table)
    changes: exp.Query
    if (table, interval) in sources.staged:
        every = [exp.column(name, quoted=True) for name in (*columns, COUNT, CSN)]
        changes = exp.select(*every).from_(exp.Table(this=quoted(sources.staged[table, interval])))
    else:
        changes = changes_of(table, interval, columns, sources.moments)
    kinds = dict(definition.tables[table].columns)
    return fated_changes(changes, columns, key, net=all(is_plain_type(kinds[name]) for name in columns))
