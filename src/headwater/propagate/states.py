"""States of tables that are not copied, for who computes or checks a view from scratch; nothing to do without them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from headwater.algebra.time import Csn
from headwater.context import Context
from headwater.definition import Definition
from headwater.errors import InvalidInput
from headwater.pinning import State, providing
from headwater.sql.relations import current_table


@contextmanager
def whole_states(context: Context, definition: Definition, csn: Csn) -> Iterator[None]:
    """All rows of the tables that are not copied, asked of their sources."""
    if not _asked(context, definition):
        yield
        return
    from headwater.propagate.asking_driver import asked_whole

    with asked_whole(context, definition, csn):
        yield


@contextmanager
def typed_states(context: Context, csn: Csn) -> Iterator[None]:
    """Relations of the right columns in place of the tables that are not copied, to check a text by; not to be run.

    Their logs: of a relation that is known to be empty Spark's optimizer would leave nothing to compare.
    """
    given = {}
    for mirror in context.catalog.mirrors():
        if mirror.mode == "query":
            columns = context.catalog.base_table(mirror.name).columns
            given[mirror.name, csn] = State(columns, current_table(mirror.log_location), (), (), mirror.log_location)
    with providing(given):
        yield


def require_askable(context: Context, definition: Definition, method: str) -> None:
    """Over tables that are not copied a view must be a join block, propagated by its frontier."""
    tables = _asked(context, definition)
    if not tables:
        return
    if definition.nodes or definition.recomputed is not None:
        raise InvalidInput(
            f"{', '.join(tables)}: nothing is copied in mode 'query', so a view on it can only select, join and unite.",
            remedy="Create a view of the join, and the aggregate, outer join or window as a view on that view; or "
            "track the table in mode 'mirror'.",
            code="QUERY_MODE_NODE",
        )
    if method != "frontier":
        raise InvalidInput(
            f"{', '.join(tables)}: the method {method!r} reads tables of the lake.",
            remedy="Leave the method out.",
            code="QUERY_MODE_METHOD",
        )


def _asked(context: Context, definition: Definition) -> list[str]:
    return [table for table in definition.tables if context.catalog.mirror_mode(table) == "query"]
