"""Delta trees as JSON, for the catalog: a leaf is its number, a node the list of its parts in their order."""

from __future__ import annotations

from typing import Any

from headwater.algebra.plan import LeafId
from headwater.propagate.delta_tree import DeltaTree, LeafDelta, NodeDelta


def tree_as_json(tree: DeltaTree) -> Any:
    match tree:
        case LeafDelta(leaf=leaf):
            return int(leaf)
        case NodeDelta(parts=parts):
            return [tree_as_json(part) for part in parts]


def tree_of_json(found: Any) -> DeltaTree:
    if isinstance(found, int):
        return LeafDelta(LeafId(found))
    return NodeDelta(tuple(tree_of_json(part) for part in found))
