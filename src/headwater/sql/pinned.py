"""A query over the lake as it was at one csn.

The user's text stays word for word; each name of a view or tracked table that it reads is bound, around it, to a
relation over exact Delta versions. A text that could reach anything else is refused: a name that the lake does not
know (Spark may know it, at some other moment), a path, a moment of its own, a function that reads tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from sqlglot import exp

from headwater.algebra.time import Csn
from headwater.errors import InternalError, SqlAnalysisError
from headwater.sql.dialect import parse, position, to_text
from headwater.sql.layouts import counted_view
from headwater.sql.storage import bag, counted_at, stored, table_at
from headwater.sql.timeline import timeline_at

# Table functions that make rows from their arguments alone.
_GENERATORS = frozenset(
    {
        *("range", "explode", "explode_outer", "posexplode", "posexplode_outer", "inline", "inline_outer", "stack"),
        *("json_tuple", "variant_explode", "variant_explode_outer"),
    }
)


@dataclass(frozen=True, slots=True)
class PinnedTable:
    """A base table: the version that it had at the csn."""

    location: str
    version: int


@dataclass(frozen=True, slots=True)
class PinnedMirror:
    """A mirrored table: what it held at ``stored_at`` is in ``version``, and its log leads from there to ``at``.

    ``unique``: no row stands in it twice. Frames that outlive the moment have the log pinned to ``log_version``.
    """

    location: str
    version: int
    columns: tuple[str, ...]
    stored_at: Csn
    at: Csn
    log_location: str
    unique: bool = False
    log_version: int | None = None


@dataclass(frozen=True, slots=True)
class PinnedView:
    """A view whose table holds it at ``stored_at`` in ``version``.

    For any other csn ``at`` its view delta leads there, read in a version of its own (``delta_version``), so that a
    query which runs when the lease is long gone finds the same rows or fails.
    """

    location: str
    version: int
    columns: tuple[str, ...]
    stored_at: Csn
    at: Csn
    delta_location: str
    delta_version: int | None = None
    timeline: bool = False

    def __post_init__(self) -> None:
        if self.at != self.stored_at and self.delta_version is None:
            raise InternalError(f"the view delta at {self.delta_location} is not pinned")


@dataclass(frozen=True, slots=True)
class PinnedTimeline:
    """A view in the layout ``timeline`` at a csn that its table keeps: one version shows all of these."""

    location: str
    version: int
    columns: tuple[str, ...]
    at: Csn


Pinned: TypeAlias = PinnedTable | PinnedMirror | PinnedView | PinnedTimeline


def pinned_relation(pinned: Pinned, names: Sequence[str] | None = None) -> exp.Query:
    """The bag of rows that a name stands for; of tables perhaps only some columns."""
    match pinned:
        case PinnedTable(location=location, version=version):
            return table_at(location, version, names)
        case PinnedMirror():
            return mirror_at(pinned, pinned.columns if names is None else names)
        case PinnedTimeline(location=location, version=version, columns=columns, at=at):
            return timeline_at(location, version, at, columns)
        case PinnedView(columns=columns):
            rows = counted_view(
                pinned.location,
                pinned.version,
                pinned.stored_at,
                pinned.delta_location,
                pinned.at,
                columns,
                timeline=pinned.timeline,
                delta_version=pinned.delta_version,
            )
            return bag(rows, columns)


def mirror_at(pinned: PinnedMirror, names: Sequence[str]) -> exp.Query:
    """Some columns of a mirrored table's rows."""
    exact = pinned.at == pinned.stored_at
    if exact and pinned.unique:
        return table_at(pinned.location, pinned.version, names)
    if exact:
        return bag(stored(pinned.location, pinned.version, names), names)
    # Rows are told apart by all their columns, whichever are wanted.
    base = stored(pinned.location, pinned.version, pinned.columns)
    rows = counted_at(
        base, pinned.stored_at, pinned.log_location, pinned.at, pinned.columns, delta_version=pinned.log_version
    )
    return bag(rows, names)


def names_read(text: str, known: Iterable[str]) -> list[str]:
    """The names of views and tables that a query reads, as the lake spells them; anything else is refused."""
    spelled = {name.lower(): name for name in known}
    names = f"Known: {', '.join(sorted(spelled.values())) or 'none'}."
    found: dict[str, None] = {}
    for table in parse(text).find_all(exp.Table):
        if not isinstance(table.this, exp.Identifier):
            _require_generator(table, text)
        elif table.args.get("db"):
            raise _refused(table, text, "is not a name of this lake", names)
        elif _is_cte(table):
            continue
        elif table.args.get("version") or table.args.get("when"):
            raise _refused(table, text, "asks for a moment of its own, and a snapshot has only one", "Leave it out.")
        elif table.name.lower() not in spelled:
            raise _refused(table, text, "is no view and no tracked table of this lake", names)
        else:
            found[spelled[table.name.lower()]] = None
    return list(found)


def _is_cte(table: exp.Table) -> bool:
    """Whether a name means a common table expression around it: one of an outer WITH, or an earlier one of its own."""
    node: exp.Expr = table
    while (parent := node.parent) is not None:
        if isinstance(parent, exp.With):
            before = next(at for at, cte in enumerate(parent.expressions) if cte is node)
            visible = parent.expressions[: before + bool(parent.args.get("recursive"))]
        elif parent.args.get("with_") is not None and parent.args["with_"] is not node:
            visible = parent.args["with_"].expressions
        else:
            visible = []
        if any(cte.alias.lower() == table.name.lower() for cte in visible):
            return True
        node = parent
    return False


def _require_generator(table: exp.Table, text: str) -> None:
    function = table.this
    name = function.name if isinstance(function, exp.Anonymous) else function.sql_name()
    if name.lower() not in _GENERATORS:
        why = "may read what is not of the snapshot's moment"
        raise _refused(table, text, why, "Read views and tables by their names.")


def _refused(table: exp.Table, text: str, why: str, remedy: str) -> SqlAnalysisError:
    line, place = position(table, text) or (None, None)
    bare = table.copy()
    for extra in ("alias", "joins", "laterals", "sample", "version", "when"):
        bare.set(extra, None)
    return SqlAnalysisError(f"{to_text(bare)} {why}.", line=line, column=place, remedy=remedy)
