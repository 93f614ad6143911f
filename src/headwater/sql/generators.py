"""Generators: explode and its like repeat each row of the block below them, in LATERAL VIEW or in the select list."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from headwater.sql.blocks import Block, GeneratorOn
from headwater.sql.context import Lowering
from headwater.sql.dialect import column, to_text
from headwater.sql.expressions import Ctes, is_generator
from headwater.sql.scope import Relation, Scope


def generate(
    lowering: Lowering, generator: exp.Expr, names: Sequence[str], block: Block, *, outer: bool = False
) -> list[exp.Expr]:
    """Put a generator on a block; what stands for its columns. ``outer``: a row for which it gives none is kept."""
    alias = lowering.names.numbered_alias("generator")
    outputs = tuple(f"{alias}.{name}" for name in names)
    block.inputs = [GeneratorOn(block.close_below_ties(), generator, outer, outputs)]
    return [column(name) for name in outputs]


def add_lateral_view(lowering: Lowering, lateral: exp.Lateral, scope: Scope, block: Block, ctes: Ctes) -> None:
    alias = lateral.args.get("alias")
    if alias is None:
        found = f"{to_text(lateral)} without names for its columns"
        raise lowering.expressions.refuse("LATERAL", found, lateral)
    names = [each.name for each in alias.args.get("columns") or []]
    if not lateral.args.get("view") or not is_generator(lateral.this) or not names:
        raise lowering.expressions.refuse("LATERAL", to_text(lateral), lateral)
    generator = lowering.expressions.read(lateral.this, scope, {}, ctes)
    values = generate(lowering, generator, names, block, outer=bool(lateral.args.get("outer")))
    scope.relations.append(Relation.of(alias.name or None, names, values))


def selected_generator(
    lowering: Lowering, item: exp.Expr, call: exp.Expr, scope: Scope, block: Block, ctes: Ctes
) -> list[tuple[str, exp.Expr]]:
    """explode(...) in the select list: LATERAL VIEW by another name."""
    if isinstance(item, exp.Aliases):
        names = [each.name for each in item.expressions]
    elif isinstance(item, exp.Alias):
        names = [item.alias]
    else:
        found = f"{to_text(call)} without a name for its columns"
        raise lowering.expressions.refuse("GENERATOR", found, item)
    outputs = generate(lowering, lowering.expressions.read(call, scope, {}, ctes), names, block)
    return list(zip(names, outputs, strict=True))
