"""Constraints of tracked tables: declared by the user or by the table's own DDL, and verified on the data.

A declaration is a claim and changes nothing by itself: it is used once it was verified, and for as long as the changes
that arrive keep it (``headwater.propagate.knowing``). Verifying looks at the whole state at the newest csn, or, where
the constraint is known to hold up to some csn, at the changes since; both say exactly whether it holds.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headwater.algebra.constraints import Constraint, ForeignKey, Unique
from headwater.algebra.time import Csn, Interval
from headwater.capture.driver import capture, problem_of
from headwater.catalog.constraints import Seen
from headwater.catalog.records import BaseTable, ConstraintRecord
from headwater.context import Context, name_lease
from headwater.definition import CatalogMoments, Definition, TableUse
from headwater.errors import HistoryLost, InvalidInput
from headwater.propagate.knowing import Todo, ask, look, record, standing
from headwater.propagate.same_columns import says_the_same
from headwater.propagate.trust import Check
from headwater.sql.declared import declared_constraints
from headwater.sql.statements import NAME
from headwater.sql.verification import DeltaRelations
from headwater.values import Columns, ConstraintStatus, Verification


@dataclass(frozen=True, slots=True)
class Declaration:
    """What a call declares of a table; columns as the user spelled them."""

    primary_key: Columns | None = None
    unique: Columns | None = None
    foreign_key: Mapping[str, str] | None = None

    @property
    def count(self) -> int:
        return sum(each is not None for each in (self.primary_key, self.unique, self.foreign_key))


def declare(context: Context, table: str, declaration: Declaration, name: str | None) -> list[ConstraintStatus]:
    """Record the constraints; all of them or, where one can't be declared, none of those after it."""
    if declaration.count == 0:
        raise InvalidInput(
            "Nothing is declared.", remedy="Give primary_key, unique or foreign_key, or read the table's own DDL."
        )
    if name is not None and declaration.count > 1:
        raise InvalidInput("One name was given for several constraints.", remedy="Declare them one by one.")
    if name is not None and not NAME.fullmatch(name):
        raise InvalidInput(f"{name!r} is not a name.", remedy="Use letters, digits and _, not a digit first.")
    own = _tracked(context, table)
    found: list[Constraint] = []
    if declaration.primary_key is not None:
        found.append(Unique(own.name, _columns(own, declaration.primary_key), primary=True))
    if declaration.unique is not None:
        found.append(Unique(own.name, _columns(own, declaration.unique)))
    if declaration.foreign_key is not None:
        found.append(_reference(context, own, declaration.foreign_key))
    return _record(context, own, [(name or _name(constraint), constraint) for constraint in found])


def declare_from_table(context: Context, table: str, where: str | None) -> list[ConstraintStatus]:
    """Declare what the table's own DDL says, as far as it is not declared yet.

    ``where`` is the table's name in Spark's catalog, if that and not the table's folder keeps its constraints.
    """
    own = _tracked(context, table)
    keys, foreign = declared_constraints(context.source.described(own.name, where or own.location))
    found: list[tuple[str, Constraint]] = [
        (each.name, Unique(own.name, _columns(own, each.columns), primary=each.primary)) for each in keys
    ]
    places = {each.location: each for each in context.catalog.base_tables()}
    for each in foreign:
        referred = places.get(context.source.describe(each.referred, each.referred).location)
        if referred is not None:  # of a table that nobody tracks nothing can be used
            pair = _columns(own, each.columns), _columns(referred, each.referred_columns)
            found.append((each.name, ForeignKey(own.name, pair[0], referred.name, pair[1])))
    known = {each.constraint for each in context.catalog.constraints()}
    return _record(context, own, [(name, constraint) for name, constraint in found if constraint not in known])


def undeclare(context: Context, name: str) -> None:
    constraint = context.catalog.constraint(name).constraint
    with context.catalog.lease(name_lease(constraint.table), wait=context.lease_wait) as lease:
        context.catalog.remove_constraint(lease, name)


def declared(context: Context, table: str | None) -> list[ConstraintStatus]:
    """The constraints of a table, or all of them."""
    own = None if table is None else _tracked(context, table).name
    return [status(each) for each in context.catalog.constraints() if own in (None, each.constraint.table)]


def verify(context: Context, table: str | None, *, full: bool) -> list[Verification]:
    """Look whether the constraints of a table, or all of them, hold at the newest csn; what was found is remembered."""
    own = None if table is None else _tracked(context, table).name
    newest = capture(context).csn
    wanted = [seen for seen in context.catalog.seen_constraints() if own in (None, seen.record.constraint.table)]
    return [_verify(context, seen, newest, full) for seen in wanted]


def _verify(context: Context, seen: Seen, newest: Csn, full: bool) -> Verification:
    started, name = time.monotonic(), seen.record.name
    constraint = seen.record.constraint
    for table in sorted(constraint.tables):
        if (base := context.catalog.base_table(table)).problem is not None:
            raise problem_of(base)
    tables = {table: TableUse((), constraint.columns) for table in constraint.tables}
    moments = CatalogMoments(context.catalog, Definition.from_scratch("", tables, {}, {}, "VERIFY"))
    check = check_at(seen, newest, full=full)
    if not check.state and not _told_by_changes(context, moments, check):
        check = check_at(seen, newest, full=True)
    context.progress(f"verifying {constraint}")
    todo = Todo(((seen, check),))
    looked = look(DeltaRelations(moments), todo, (), check.changes, lambda text: ask(context, text))
    with context.catalog.lease(name_lease(constraint.table), wait=context.lease_wait) as lease:
        record(context, lease, todo, looked)
    return Verification(
        status(context.catalog.constraint(name)),
        newest,
        name not in looked.broken,
        "state" if check.state else "changes",
        time.monotonic() - started,
    )


def _told_by_changes(context: Context, moments: CatalogMoments, check: Check) -> bool:
    """Whether changes alone tell if the constraint holds."""
    try:
        return says_the_same(context, moments, check.constraint, check.changes)
    except HistoryLost:  # nobody knows what its columns were called meanwhile
        return False


def check_at(seen: Seen, newest: Csn, *, full: bool = False) -> Check:
    """What to look at to know whether a constraint holds at the newest csn."""
    now = standing(seen)
    if full or now.held is None or now.broken is not None:
        return Check(now.constraint, True, Interval(newest, newest))
    return Check(now.constraint, False, Interval(now.held.end, max(now.held.end, newest)))


def status(found: ConstraintRecord) -> ConstraintStatus:
    match found.constraint:
        case Unique(primary=primary):
            kind, referred_table, referred_columns = "primary key" if primary else "unique", None, None
        case ForeignKey(referred_table=referred_table, referred_columns=referred_columns):
            kind = "foreign key"
    return ConstraintStatus(
        name=found.name,
        table=found.constraint.table,
        kind=kind,
        columns=found.constraint.columns,
        referred_table=referred_table,
        referred_columns=referred_columns,
        held_from=None if found.held is None else int(found.held.start),
        held_to=None if found.held is None else int(found.held.end),
        broken=found.broken,
    )


def _record(context: Context, table: BaseTable, found: Sequence[tuple[str, Constraint]]) -> list[ConstraintStatus]:
    with context.catalog.lease(name_lease(table.name), wait=context.lease_wait) as lease:
        return [status(context.catalog.add_constraint(lease, name, constraint)) for name, constraint in found]


def _tracked(context: Context, name: str) -> BaseTable:
    tables = context.catalog.base_tables()
    found = next((each for each in tables if each.name.lower() == name.lower()), None)
    if found is None:
        found = context.catalog.base_table(name)  # raises, with the names that there are
    if found.mode == "live":
        raise InvalidInput(
            f"{found.name!r} is tracked as live: its past can't be read, so no constraint of it can be known to hold.",
            remedy="Track it as versioned.",
        )
    return found


def _columns(table: BaseTable, given: Columns) -> tuple[str, ...]:
    """The columns as the table spells them."""
    known = {name.lower(): name for name, _ in table.columns}
    names = (given,) if isinstance(given, str) else tuple(given)
    unknown = [name for name in names if name.lower() not in known]
    if unknown or not names or len({name.lower() for name in names}) != len(names):
        raise InvalidInput(
            f"{table.name!r} has no column {', '.join(map(repr, unknown))}."
            if unknown
            else f"A constraint names one column or more, each once, not {', '.join(names) or 'none'}.",
            remedy=f"Choose among {', '.join(known.values())}.",
        )
    return tuple(known[name.lower()] for name in names)


def _reference(context: Context, table: BaseTable, pairs: Mapping[str, str]) -> ForeignKey:
    """``{"l_orderkey": "orders.o_orderkey"}``."""
    split = [(own, *other.rpartition(".")) for own, other in pairs.items()]
    referred = {before.lower() for _, before, _, _ in split}
    if len(referred) != 1 or "" in referred:
        raise InvalidInput(
            f"A foreign key refers to columns of one table, not to {', '.join(pairs.values()) or 'none'}.",
            remedy="Write it as {'column': 'table.column'}.",
        )
    other = _tracked(context, split[0][1])
    own = _columns(table, [name for name, _, _, _ in split])
    return ForeignKey(table.name, own, other.name, _columns(other, [name for _, _, _, name in split]))


def _name(constraint: Constraint) -> str:
    match constraint:
        case Unique(primary=True):
            return f"{constraint.table}_pkey"
        case Unique():
            return f"{constraint.table}_{'_'.join(constraint.columns)}_key"
        case ForeignKey():
            return f"{constraint.table}_{'_'.join(constraint.columns)}_fkey"
