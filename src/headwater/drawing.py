"""A delta tree or a view's plan as a picture: boxes with what was estimated and what was measured, as SVG text.

Two steps, both pure. First a tree of ``Box``es, from a delta tree (``of_delta_tree``) or from a plan (``of_plan``),
with the figures of each node: rows, seconds, bytes, estimated and actual. Then ``svg``: a tree laid out from the root
down, every subtree in a strip of its own as wide as its widest row, so no two boxes meet and the same tree always gives
the same text. Text is set in a fixed-width face, which is how its width is known without a font.

A node whose rows were estimated ten times too high or too low stands out: there the cost model can learn most.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias
from unicodedata import east_asian_width
from xml.sax.saxutils import escape, quoteattr

from headwater.algebra.plan import LeafId
from headwater.outline import Outline
from headwater.propagate.delta_tree import DeltaTree, LeafDelta, NodeDelta, leaves_in_order, leaves_of, terms
from headwater.propagate.linear_work import Cardinalities

OFF_BY = 10
_LINE, _CHARACTER, _PADDING, _GAP, _LAYER = 16, 7.3, 8, 24, 48
_LONGEST = 64
_STYLE = (
    "text{font:12px ui-monospace,Menlo,Consolas,monospace;fill:#1b1f24}"
    ".heading{font-size:14px;font-weight:bold}.title{font-weight:bold}.actual{fill:#0550ae}"
    "rect.box{fill:#f6f8fa;stroke:#57606a}.off rect.box{fill:#fff1e5;stroke:#bc4c00;stroke-width:2}"
    ".idle rect.box{stroke-dasharray:4 3;fill:#ffffff}.edge{fill:none;stroke:#57606a}"
)
# What XML 1.0 has no way to write.
_UNWRITABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class Figures:
    """Of what a node gives or takes; None where it is not known."""

    rows: float | None = None
    seconds: float | None = None
    bytes: float | None = None

    def __str__(self) -> str:
        shown = [
            f"{self.rows:,.0f} rows" if self.rows is not None else None,
            _seconds(self.seconds) if self.seconds is not None else None,
            _bytes(self.bytes) if self.bytes is not None else None,
        ]
        return " · ".join(text for text in shown if text is not None)


NOTHING = Figures()
Path: TypeAlias = tuple[int, ...]
"""Where a node of a plan stands: the places of its ancestors and its own among their siblings; the root is ()."""


@dataclass(frozen=True, slots=True)
class Box:
    title: str
    details: tuple[str, ...] = ()
    estimated: Figures = NOTHING
    actual: Figures = NOTHING
    children: tuple[Box, ...] = ()
    idle: bool = False  # nothing is computed here

    @property
    def is_off(self) -> bool:
        guess, truth = self.estimated.rows, self.actual.rows
        if guess is None or truth is None:
            return False
        low, high = sorted((max(guess, 1), max(truth, 1)))
        return high >= OFF_BY * low

    def texts(self) -> list[tuple[str, str]]:
        """(class, line), from the top down."""
        found = [("title", self.title), *(("detail", detail) for detail in self.details)]
        if str(self.estimated):
            found.append(("estimated", f"estimated {self.estimated}"))
        if str(self.actual):
            found.append(("actual", f"actual {self.actual}"))
        return [(kind, _shortened(_one_line(text))) for kind, text in found]

    @property
    def width(self) -> float:
        return max(_cells(text) for _, text in self.texts()) * _CHARACTER + 2 * _PADDING

    @property
    def height(self) -> float:
        return len(self.texts()) * _LINE + 2 * _PADDING


def of_delta_tree(
    tree: DeltaTree,
    name: Callable[[LeafId], str],
    changed: frozenset[LeafId],
    estimated: Mapping[frozenset[LeafId], Figures],
    actual: Mapping[frozenset[LeafId], Figures] | None = None,
) -> Box:
    """One box for the change of each leaf and node, with the terms that compute it; figures by the leaves below it."""
    below = leaves_of(tree)
    figures = estimated.get(below, NOTHING), (actual or {}).get(below, NOTHING)
    idle = not below & changed
    match tree:
        case LeafDelta(leaf=leaf):
            return Box(f"Δ{name(leaf)}" if not idle else f"{name(leaf)} (no changes)", (), *figures, idle=idle)
        case NodeDelta(parts=parts):
            details = tuple(
                " ⋈ ".join(
                    [
                        *(_state(leaf, name, changed) for part in term.new for leaf in leaves_in_order(part)),
                        _change(term.changed, name),
                        *(name(leaf) for part in term.old for leaf in leaves_in_order(part)),
                    ]
                )
                for term in terms(tree, changed)
            )
            children = tuple(of_delta_tree(part, name, changed, estimated, actual) for part in parts)
            return Box(_change(tree, name), details, *figures, children, idle)


def estimates(tree: DeltaTree, cardinalities: Cardinalities) -> Mapping[frozenset[LeafId], Figures]:
    """The rows of every change in the tree, as the linear work metric sizes them."""
    below = leaves_of(tree)
    found = {below: Figures(rows=cardinalities.change_rows(below))}
    for part in tree.parts if isinstance(tree, NodeDelta) else ():
        found.update(estimates(part, cardinalities))
    return found


def of_plan(
    tree: Outline, estimated: Mapping[Path, Figures], actual: Mapping[Path, Figures] | None = None, at: Path = ()
) -> Box:
    """One box for each operator of a plan; figures by the place of the operator."""
    first, *rest = tree.label.split(" ", 1)
    return Box(
        first,
        tuple(rest),
        estimated.get(at, NOTHING),
        (actual or {}).get(at, NOTHING),
        tuple(of_plan(child, estimated, actual, (*at, place)) for place, child in enumerate(tree.children)),
    )


def svg(root: Box, heading: str) -> str:
    """The picture, a whole document."""
    layout = _Layout()
    layout.place(root, _GAP, 0, None)
    tops = layout.tops(_GAP + 2 * _LINE)
    shortened = _shortened(_one_line(heading))
    width = max(layout.right, _cells(shortened) * _CHARACTER * 14 / 12 + _GAP) + _GAP
    height = tops[-1] + layout.heights[-1] + _GAP
    label = quoteattr(_writable(heading))
    size = f'width="{_n(width)}" height="{_n(height)}"'
    view = f'viewBox="0 0 {_n(width)} {_n(height)}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {view} {size} role="img" aria-label={label}>',
        f"<style>{_STYLE}</style>",
        f'<rect {size} fill="#ffffff"/>',
        f'<text class="heading" x="{_n(_GAP)}" y="{_n(_GAP + _LINE)}">{escape(shortened)}</text>',
        *(_edge(each, layout.placed[each.parent], tops) for each in layout.placed if each.parent is not None),
        *(_node(number, each, tops) for number, each in enumerate(layout.placed)),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


@dataclass(frozen=True, slots=True)
class _Placed:
    box: Box
    left: float
    depth: int
    parent: int | None

    @property
    def middle(self) -> float:
        return self.left + self.box.width / 2


@dataclass(slots=True)
class _Layout:
    """Boxes in the order of the tree, a parent before its children."""

    placed: list[_Placed] = field(default_factory=list)
    heights: list[float] = field(default_factory=list)  # by depth
    right: float = 0

    def place(self, box: Box, left: float, depth: int, parent: int | None) -> None:
        """Put the subtree into the strip that begins at ``left``, the box above the middle of its children."""
        if depth == len(self.heights):
            self.heights.append(0)
        self.heights[depth] = max(self.heights[depth], box.height)
        strip, number = _strip(box), len(self.placed)
        self.placed.append(_Placed(box, left + (strip - box.width) / 2, depth, parent))
        self.right = max(self.right, left + strip)
        inside = left + (strip - _row(box.children)) / 2
        for child in box.children:
            self.place(child, inside, depth + 1, number)
            inside += _strip(child) + _GAP

    def tops(self, first: float) -> list[float]:
        found = [first]
        for height in self.heights[:-1]:
            found.append(found[-1] + height + _LAYER)
        return found


def _strip(box: Box) -> float:
    """How wide a subtree is."""
    return max(box.width, _row(box.children))


def _row(boxes: Sequence[Box]) -> float:
    return sum(_strip(box) for box in boxes) + _GAP * max(0, len(boxes) - 1)


def _node(number: int, placed: _Placed, tops: Sequence[float]) -> str:
    box, top = placed.box, tops[placed.depth]
    states = ["node", *(["off"] if box.is_off else []), *(["idle"] if box.idle else [])]
    size = f'width="{_n(box.width)}" height="{_n(box.height)}"'
    whole = escape("\n".join(_writable(text) for text in (box.title, *box.details)))
    lines = [
        f'<text class="{kind}" x="{_n(placed.left + _PADDING)}" y="{_n(top + _PADDING + _LINE * (place + 0.75))}">'
        f"{escape(text)}</text>"
        for place, (kind, text) in enumerate(box.texts())
    ]
    return "\n".join(
        [
            f'<g class="{" ".join(states)}" id="n{number}">',
            f"<title>{whole}</title>",
            f'<rect class="box" x="{_n(placed.left)}" y="{_n(top)}" {size} rx="4"/>',
            *lines,
            "</g>",
        ]
    )


def _edge(child: _Placed, parent: _Placed, tops: Sequence[float]) -> str:
    start, end = tops[parent.depth] + parent.box.height, tops[child.depth]
    bend = (start + end) / 2
    return (
        f'<path class="edge" d="M {_n(parent.middle)} {_n(start)} C {_n(parent.middle)} {_n(bend)} '
        f'{_n(child.middle)} {_n(bend)} {_n(child.middle)} {_n(end)}"/>'
    )


def _state(leaf: LeafId, name: Callable[[LeafId], str], changed: frozenset[LeafId]) -> str:
    return name(leaf) + ("'" if leaf in changed else "")


def _change(tree: DeltaTree, name: Callable[[LeafId], str]) -> str:
    joined = " ⋈ ".join(name(leaf) for leaf in leaves_in_order(tree))
    return f"Δ{joined}" if isinstance(tree, LeafDelta) else f"Δ({joined})"


def _writable(text: str) -> str:
    return _UNWRITABLE.sub("\ufffd", text)


def _one_line(text: str) -> str:
    return _writable(" ".join(text.split()))


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _cells(text: str) -> int:
    """How many characters wide: those of East Asia take two."""
    return sum(2 if east_asian_width(character) in "WF" else 1 for character in text)


def _n(value: float) -> str:
    """Coordinates to a tenth, without a needless point."""
    return f"{value:.1f}".removesuffix(".0")


def _seconds(value: float) -> str:
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:,.1f} s"


def _bytes(value: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 10 else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:,.1f} TB"
