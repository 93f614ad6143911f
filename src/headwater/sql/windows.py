"""Window functions: all those over one PARTITION BY become one node on the block below them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from headwater.sql.blocks import Block, OuterRef, WindowOn
from headwater.sql.context import Lowering
from headwater.sql.dialect import column, to_text


def name_windows(node: exp.Select) -> exp.Select:
    """The SELECT with every OVER w of its own replaced by what WINDOW says of w; queries inside it have other names."""
    named: Mapping[str, exp.Window] = {each.name.lower(): each for each in node.args.get("windows") or []}
    if not named:
        return node
    copy = node.copy()
    copy.set("windows", None)
    for window in [each for each in copy.find_all(exp.Window) if each.find_ancestor(exp.Query) is copy]:
        while window.alias and window.alias.lower() in named:
            definition = named[window.alias.lower()]
            window.set("alias", None)
            for key in ("partition_by", "order", "spec"):
                if definition.args.get(key) and not window.args.get(key):
                    found = definition.args[key]
                    window.set(key, [each.copy() for each in found] if isinstance(found, list) else found.copy())
            if definition.args.get("alias"):
                window.set("alias", definition.args["alias"].copy())
    return copy


def add_windows(lowering: Lowering, values: Sequence[exp.Expr], block: Block) -> list[exp.Expr]:
    """Values with their window functions computed below; the block is put under the nodes that do."""
    held = [exp.Paren(this=value.copy()) for value in values]
    found = [window for each in held for window in each.find_all(exp.Window)]
    unnamed = next((window for window in found if window.alias), None)
    if unnamed is not None:
        raise lowering.expressions.refuse("OTHER", f"a window {unnamed.alias} of the query around", unnamed)
    if any(window.find_ancestor(exp.Window) for window in found):
        raise lowering.expressions.refuse("OTHER", "a window function inside another", found[0])
    if any(window.find(OuterRef) for window in found):
        raise lowering.expressions.refuse("CORRELATION", "an outer column in a window function", found[0])
    if any(each.find(OuterRef) for each in block.conditions):
        raise lowering.expressions.refuse("CORRELATION", "a window function in a correlated subquery", found[0])
    by_partition: dict[str, list[exp.Window]] = {}
    for window in found:
        by_partition.setdefault(_partition(window), []).append(window)
    for windows in by_partition.values():
        name = lowering.names.node("window")
        keys = [(f"{name}.k{i}", key.copy()) for i, key in enumerate(windows[0].args.get("partition_by") or [])]
        node = WindowOn(name, block.close(), keys)
        for window in windows:
            known = next((attribute for attribute, value in node.values if value == window), None)
            if known is None:
                known = f"{name}.w{len(node.values)}"
                node.values.append((known, window.copy()))
            window.replace(column(known))
        block.inputs = [node]
    return [each.this for each in held]


def _partition(window: exp.Window) -> str:
    return ", ".join(to_text(key) for key in window.args.get("partition_by") or [])
