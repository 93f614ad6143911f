"""What several views of a round need is computed once.

A round brings views to one csn, one after another. Views that start from the same csn read the same changes, and blocks
with one core (``headwater.propagate.cores``) the same join of them. The changes of a table that several blocks read are
read once and kept in memory, if they are few; the change of a core that several blocks have is computed by the first of
them, with the columns that any of them reads, and is what the others select from: one pass over the base tables for
all. What is kept goes when the round ends. Nothing of it is recorded: a step that is run again after a crash computes
its change by itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from copy import copy
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from headwater.algebra.nodes import blocks_of
from headwater.algebra.plan import Plan, scans
from headwater.algebra.time import Csn, Interval
from headwater.context import Context
from headwater.definition import Definition, TableUse
from headwater.engine.staging import StagedRows
from headwater.errors import InternalError, NameProblem
from headwater.propagate.cores import Core, CoreUse, core_of
from headwater.propagate.targets import frontier_of

Settings: TypeAlias = frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class SharedCore:
    """A core that several blocks have, and all that they read of it."""

    columns: Mapping[str, frozenset[str]]
    reads: frozenset[str]
    tables: Mapping[str, TableUse]
    views: Mapping[str, TableUse]

    def definition(self, own: Definition, use: CoreUse) -> Definition:
        """The core as if it were a view, in the names of one of the blocks."""
        plan = use.whole(self.columns, self.reads)
        return replace(own, tables=self.tables, views=self.views, plan=plan, nodes={}, carried=None, hidden=())


@dataclass(frozen=True, slots=True)
class KeptCore:
    """The change of a core that was computed: what can be read of it, and by which view."""

    rows: StagedRows
    reads: frozenset[str]
    view: str


@dataclass(slots=True)
class Sharing:
    """``cores`` and ``feeds`` are wanted by several blocks that start from the csn in their keys."""

    cores: dict[tuple[Core, Settings, Csn], SharedCore]
    feeds: dict[tuple[str, Csn], tuple[str, ...]]
    stack: ExitStack
    uses: int = 0  # how often something was had from here, or put here for others
    _kept: dict[tuple[Core, Settings, Interval], KeptCore] = field(default_factory=dict)
    _feeds: dict[tuple[str, Interval], str] = field(default_factory=dict)

    def kept(self, use: CoreUse, definition: Definition, interval: Interval) -> KeptCore | None:
        found = self._kept.get((use.core, _settings(definition), interval))
        if found is None or not use.reads <= found.reads:
            return None
        self.uses += 1
        return found

    def wanted(self, use: CoreUse, definition: Definition, interval: Interval) -> SharedCore | None:
        """A view that comes to this csn by steps of its own may read what nobody who starts here does."""
        found = self.cores.get((use.core, _settings(definition), interval.start))
        return found if found is not None and use.reads <= found.reads else None

    def keep(self, use: CoreUse, definition: Definition, interval: Interval, kept: KeptCore) -> None:
        self._kept[use.core, _settings(definition), interval] = kept
        self.uses += 1

    def give_up(self, use: CoreUse, definition: Definition, interval: Interval) -> None:
        """It could not be computed for all; from now on everyone computes what is his own."""
        self.cores.pop((use.core, _settings(definition), interval.start), None)

    def serves(self, use: CoreUse, definition: Definition, interval: Interval) -> bool:
        """Whether the change of a core is here, or is to be."""
        return (use.core, _settings(definition), interval) in self._kept or bool(self.wanted(use, definition, interval))

    def feeds_of(
        self,
        columns: Mapping[str, Sequence[str]],
        interval: Interval,
        stage: Callable[[Mapping[str, Sequence[str]]], Mapping[str, str]],
    ) -> dict[tuple[str, Interval], str]:
        """The names of what is kept of the changes of those tables that several blocks read.

        ``columns`` are what somebody reads of some tables; who has not started with the others may read more than is
        kept. ``stage`` keeps, by their columns, the changes of some.
        """
        start = interval.start
        shared = [table for table, own in columns.items() if set(own) <= set(self.feeds.get((table, start), ()))]
        shared = [table for table in shared if columns[table]]
        missing = [table for table in shared if (table, interval) not in self._feeds]
        found = stage({table: self.feeds[table, start] for table in missing}) if missing else {}
        self._feeds |= {(table, interval): name for table, name in found.items()}
        self.uses += bool(shared)
        return {(table, interval): self._feeds[table, interval] for table in shared}

    def give_up_feeds(self, tables: Iterable[str], interval: Interval) -> None:
        for table in tables:
            self.feeds.pop((table, interval.start), None)


def _settings(definition: Definition) -> Settings:
    return frozenset(definition.settings.items())


@contextmanager
def together(context: Context, names: Iterable[str], to: Csn) -> Iterator[Context]:
    """The context in which these views share what they need to get to a csn."""
    starting = []
    for name in names:
        with suppress(NameProblem, InternalError):  # whoever refreshes it says what is wrong
            found = _starting(context, name)
            starting += [found] if found is not None and found[1] < to else []
    with ExitStack() as stack:
        shared = copy(context)
        shared.sharing = Sharing(*shares(starting), stack)
        yield shared


def _starting(context: Context, name: str) -> tuple[Definition, Csn] | None:
    """Where a view starts from that is propagated as usual, all its leaves from one csn."""
    view = context.catalog.view(name)
    definition = Definition.load(view)
    leaves = context.catalog.leaves(view.view_id)
    alike = len({leaf.time for leaf in leaves}) == 1 and all(leaf.width_kind is None for leaf in leaves)
    asks = any(context.catalog.mirror_mode(table) == "query" for table in definition.tables)
    usual = view.method == "frontier" and view.problem is None and definition.recomputed is None
    return (definition, frontier_of(leaves).high_water_mark) if leaves and alike and usual and not asks else None


def shares(
    starting: Sequence[tuple[Definition, Csn]],
) -> tuple[dict[tuple[Core, Settings, Csn], SharedCore], dict[tuple[str, Csn], tuple[str, ...]]]:
    """What more than one block needs, of views that start from a csn each: cores, and columns of tables' changes."""
    uses: dict[tuple[Core, Settings, Csn], list[tuple[Definition, CoreUse]]] = {}
    single: list[tuple[Definition, Csn, Plan]] = []
    for definition, start in starting:
        for plan in blocks_of(definition.plan, definition.nodes):
            use = core_of(plan)
            if use is not None and not any(scan.table in definition.nodes for scan in use.product.scans):
                uses.setdefault((use.core, _settings(definition), start), []).append((definition, use))
            else:
                single.append((definition, start, plan))
    cores = {key: _shared(found) for key, found in uses.items() if len(found) > 1 and _of_one_type(found)}
    reading: Counter[tuple[str, Csn]] = Counter()
    for (_, _, start), found in uses.items():  # one that is shared reads its tables once
        reading.update({(scan.table, start) for scan in found[0][1].product.scans})
    for definition, start, plan in single:
        reading.update({(scan.table, start) for scan in scans(plan) if scan.table in definition.tables})
    columns: dict[tuple[str, Csn], dict[str, None]] = {}
    for definition, start in starting:
        for table in definition.tables:
            columns.setdefault((table, start), {}).update(dict.fromkeys(definition.used_columns(table)))
    return cores, {key: tuple(columns[key]) for key, count in reading.items() if count > 1 and key in columns}


def _of_one_type(found: Sequence[tuple[Definition, CoreUse]]) -> bool:
    """Whether all know the columns that they read by the same types; a table may have changed between two views."""
    types: dict[tuple[str, str], set[str | None]] = {}
    for definition, use in found:
        for scan in use.product.scans:
            for name in scan.columns:
                types.setdefault((scan.table, name), set()).add(definition.type_of(scan.table, name))
    return all(len(each) == 1 for each in types.values())


def _shared(found: Sequence[tuple[Definition, CoreUse]]) -> SharedCore:
    columns: dict[str, frozenset[str]] = {}
    for _, use in found:
        for leaf, own in use.columns.items():
            columns[leaf] = columns.get(leaf, frozenset()) | own
    reads = frozenset(name for _, use in found for name in use.reads)
    tables = _merged([definition.tables for definition, _ in found])
    return SharedCore(columns, reads, tables, _merged([definition.views for definition, _ in found]))


def _merged(uses: Sequence[Mapping[str, TableUse]]) -> dict[str, TableUse]:
    """The tables with the columns that any of the views knows; the first one's types."""
    found: dict[str, TableUse] = {}
    for each in uses:
        for name, use in each.items():
            known = dict(found[name].columns) if name in found else {}
            columns = known | {column: kind for column, kind in use.columns if column not in known}
            found[name] = TableUse(tuple(columns.items()), use.mentioned)
    return found
