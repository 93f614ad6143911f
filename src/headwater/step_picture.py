"""What a propagation step did, block by block: as lines of text, and as one picture.

A step's outcome in the catalog has a report for each block (``headwater.propagate.block_report``): its delta tree, and
for every set of leaves how many rows were expected and how many there were, in how many seconds and bytes. Reports are
plain JSON, so that a step of last year can be drawn; what an older one does not have is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from headwater.algebra.plan import LeafId
from headwater.drawing import Box, Figures, of_delta_tree, of_plan, svg
from headwater.outline import Outline
from headwater.propagate.tree_json import tree_of_json


def lines(blocks: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """One line for each change that was computed, below the line of the block that it belongs to."""
    for block in blocks:
        took = "" if block.get("seconds") is None else f", {block['seconds']:.1f} s"
        yield f"  {_title(block)}: {block['strategy']}{took}"
        for told in block.get("search", ()):
            yield f"    searched {told}"
        prices = block.get("expected_seconds") or {}
        if prices:
            yield "    expected " + ", ".join(f"{name} {value:.1f} s" for name, value in prices.items())
        for box in _boxes(block):
            yield from _lines(box, 2)


def _lines(box: Box, depth: int) -> Iterator[str]:
    figures = [f"expected {box.estimated}"] if str(box.estimated) else []
    figures += [f"found {box.actual}"] if str(box.actual) else []
    yield "  " * depth + ": ".join([box.title, ", ".join(figures)] if figures else [box.title])
    for child in box.children:
        yield from _lines(child, depth + 1)


def picture(view: str, blocks: Sequence[Mapping[str, Any]], plan: Outline) -> str:
    """The delta trees of the last step as SVG; the plan, where no step tells of any."""
    if not blocks:
        return svg(of_plan(plan, {}), f"{view}: its plan; no propagation by blocks yet")
    roots = [_root(block) for block in blocks]
    whole = roots[0] if len(roots) == 1 else Box(view, (f"{len(roots)} blocks",), children=tuple(roots))
    ways = ", ".join(dict.fromkeys(str(block["strategy"]) for block in blocks))
    return svg(whole, f"{view}: the last propagation, by {ways}")


def _root(block: Mapping[str, Any]) -> Box:
    boxes = _boxes(block)
    if len(boxes) == 1:
        return boxes[0]
    told = "sum of products" if boxes else str(block["strategy"])
    return Box(_title(block), (told,), children=tuple(boxes))


def _title(block: Mapping[str, Any]) -> str:
    return f"input {block['block']}" if block["block"] else "the view's own block"


def _boxes(block: Mapping[str, Any]) -> list[Box]:
    """A tree of boxes for each product of the block."""
    aliases = {LeafId(int(leaf)): alias for leaf, alias in block["aliases"].items()}
    changed = frozenset(LeafId(leaf) for leaf in block["changed"])
    nodes = {frozenset(LeafId(leaf) for leaf in node["leaves"]): node for node in block["nodes"]}
    estimated = {leaves: Figures(rows=node.get("expected")) for leaves, node in nodes.items()}
    actual = {
        leaves: Figures(rows=node.get("rows"), seconds=node.get("seconds"), bytes=node.get("bytes"))
        for leaves, node in nodes.items()
    }
    name: Callable[[LeafId], str] = aliases.__getitem__
    return [of_delta_tree(tree, name, changed, estimated, actual) for tree in map(tree_of_json, block["trees"])]
