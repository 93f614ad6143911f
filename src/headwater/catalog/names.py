"""Names that are not there, and names that are taken."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

import sqlalchemy as sa

from headwater.catalog import schema
from headwater.errors import NameTaken, UnknownName

_LISTED = 10


def unknown(kind: str, name: str, known: Iterable[str]) -> UnknownName:
    """The error for ``name``, with the known names, those that look alike first."""
    names = sorted(known)
    folded = {candidate.casefold(): candidate for candidate in reversed(names)}
    close = [folded[match] for match in difflib.get_close_matches(name.casefold(), list(folded), n=3)]
    ordered = close + [other for other in names if other not in close]
    if not ordered:
        remedy = f"There is no {kind} yet."
    else:
        listed = ", ".join(ordered[:_LISTED])
        rest = f" and {len(ordered) - _LISTED} more" if len(ordered) > _LISTED else ""
        guess = f"Did you mean {close[0]!r}? " if close else ""
        remedy = f"{guess}Known: {listed}{rest}."
    return UnknownName(f"There is no {kind} {name!r}.", remedy=remedy, name=name, known=ordered)


def require_free(connection: sa.Connection, name: str) -> None:
    """Base tables and views share one space of names, as they do in SQL."""
    for kind, table in (("base table", schema.base_tables), ("view", schema.views)):
        if connection.execute(sa.select(table.c.name).where(table.c.name == name)).first() is not None:
            raise NameTaken(f"There is already a {kind} {name!r}.", remedy="Choose another name.", name=name)


def require_view(connection: sa.Connection, view_id: str) -> str:
    """The view's name."""
    name = connection.execute(sa.select(schema.views.c.name).where(schema.views.c.view_id == view_id)).scalar()
    if name is None:
        raise UnknownName(
            f"There is no view with id {view_id}.", remedy="It may have been dropped meanwhile.", view_id=view_id
        )
    return str(name)


def users_of(connection: sa.Connection, name: str) -> list[str]:
    """The views that read the table or view ``name``, in order."""
    leaves, views = schema.leaves, schema.views
    joined = leaves.join(views, leaves.c.view_id == views.c.view_id)
    wanted = sa.select(views.c.name).select_from(joined).where(leaves.c.table_name == name)
    return list(connection.execute(wanted.distinct().order_by(views.c.name)).scalars())
