"""The join that a block selects from, whatever it selects and however it calls its tables: its *core*.

    Π_L σ_C (R_1 ⋈ ... ⋈ R_n)        has the core        σ_C (R_1 ⋈ ... ⋈ R_n)

Blocks of several views that have one core are projections of one change, so it need be computed but once, with the
columns that any of them reads. Leaves are called by their tables here and attributes by their columns, so two texts
with other aliases, another order of tables or the sides of an equality turned have the same core.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from headwater.algebra.plan import Attribute, LeafId, Plan, Scan
from headwater.algebra.product import Product, attributes_in, products
from headwater.sql.dialect import to_text
from headwater.sql.expressions import conjuncts


@dataclass(frozen=True, slots=True)
class Core:
    """The leaves by their names (``orders#1``), and the conditions over their columns (``orders#1.o_orderkey``)."""

    leaves: tuple[str, ...]
    conditions: frozenset[str]


@dataclass(frozen=True, slots=True)
class CoreUse:
    """A block as a projection of its core; ``names`` gives for each attribute of the block what the core calls it."""

    core: Core
    product: Product
    leaves: Mapping[LeafId, str]
    names: Mapping[Attribute, Attribute]

    @property
    def reads(self) -> frozenset[Attribute]:
        """What the block takes from the core, by the core's names."""
        above = [value for _, value in self.product.outputs] + [each.expression for each in self.product.generators]
        above += self._late
        return frozenset(self.names[name] for name in attributes_in(above) if name in self.names)

    @property
    def columns(self) -> Mapping[str, frozenset[str]]:
        """The columns of each leaf that the block or its conditions read, by the core's names."""
        return {self.leaves[scan.leaf]: frozenset(scan.columns) for scan in self.product.scans}

    def whole(self, columns: Mapping[str, frozenset[str]], reads: frozenset[Attribute]) -> Plan:
        """The core in this block's own names, wide enough for all who read these columns and attributes of it."""
        scans = [self._widened(scan, columns[self.leaves[scan.leaf]]) for scan in self.product.scans]
        own = {
            f"{self.leaves[scan.leaf]}.{column}": attribute
            for scan in scans
            for column, attribute in zip(scan.columns, scan.attributes, strict=True)
        }
        outputs = tuple((name, exp.column(own[name], quoted=True)) for name in sorted(reads))
        early = tuple(each for each in self.product.conditions if not self.product.is_late(each))
        return Product(tuple(scans), early, (), outputs).plan()

    def over(self, name: str) -> Plan:
        """The block over rows of the core that stand under a name."""
        taken = {self.names[attribute]: attribute for attribute in self.names if self.names[attribute] in self.reads}
        scan = Scan(LeafId(0), name, name, tuple(sorted(taken)), tuple(taken[each] for each in sorted(taken)))
        return replace(self.product, scans=(scan,), conditions=tuple(self._late)).plan()

    @property
    def _late(self) -> list[exp.Expr]:
        return [condition for condition in self.product.conditions if self.product.is_late(condition)]

    def _widened(self, scan: Scan, columns: frozenset[str]) -> Scan:
        further = tuple(sorted(columns.difference(scan.columns)))
        attributes = tuple(f"{scan.alias}.{column}" for column in further)
        return replace(scan, columns=scan.columns + further, attributes=scan.attributes + attributes)


def core_of(plan: Plan) -> CoreUse | None:
    """The core of a block that is one join; None of a union, and of a block over a single table."""
    found = products(plan)
    if len(found) != 1 or len(found[0].scans) < 2:
        return None
    product = found[0]
    leaves = _named(product.scans)
    names = {
        attribute: f"{leaves[scan.leaf]}.{column}"
        for scan in product.scans
        for column, attribute in zip(scan.columns, scan.attributes, strict=True)
    }
    early = [condition for condition in product.conditions if not product.is_late(condition)]
    conditions = frozenset(_text(part, names) for condition in early for part in conjuncts(condition))
    return CoreUse(Core(tuple(sorted(leaves.values())), conditions), product, leaves, names)


def _named(scans: Iterable[Scan]) -> dict[LeafId, str]:
    seen: Counter[str] = Counter()
    found = {}
    for scan in scans:
        seen[scan.table] += 1
        found[scan.leaf] = f"{scan.table}#{seen[scan.table]}"
    return found


def _text(condition: exp.Expr, names: Mapping[Attribute, Attribute]) -> str:
    def rename(part: exp.Expr) -> exp.Expr:
        own = isinstance(part, exp.Column) and part.name in names
        return exp.column(names[part.name], quoted=True) if own else part

    renamed = condition.copy().transform(rename)
    if isinstance(renamed, exp.EQ):
        return " = ".join(sorted([f"({to_text(renamed.this)})", f"({to_text(renamed.expression)})"]))
    return to_text(renamed)
