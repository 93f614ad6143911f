"""Pictures of trees, read back as XML: every box, its lines, where it stands and what leads to it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from random import Random
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.algebra.plan import LeafId
from headwater.drawing import Box, Figures, estimates, of_delta_tree, of_plan, svg
from headwater.outline import lines, outline
from headwater.propagate.linear_work import Cardinalities, LeafSize
from headwater.sql.lower import lower
from tests.sql.test_render import TABLES
from tests.theory.trees import leaf_ids, random_tree, tree

SVG = "{http://www.w3.org/2000/svg}"


@dataclass
class Read:
    """What a reader sees of one box."""

    texts: list[str]
    classes: list[str]
    title: str
    left: float
    top: float
    width: float
    height: float
    longest: float  # the right end of its longest line

    @property
    def right(self) -> float:
        return self.left + self.width

    @property
    def bottom(self) -> float:
        return self.top + self.height


def read(text: str) -> tuple[list[Read], list[list[float]], tuple[float, float]]:
    """Boxes in order, edges as the numbers of their paths, and the size of the picture."""
    root = ElementTree.fromstring(text)  # noqa: S314 (our own text)
    assert root.tag == f"{SVG}svg"
    boxes = []
    for group in root.findall(f"{SVG}g"):
        rect = group.find(f"{SVG}rect")
        assert rect is not None
        texts = group.findall(f"{SVG}text")
        boxes.append(
            Read(
                [each.text or "" for each in texts],
                group.attrib["class"].split(),
                group.findtext(f"{SVG}title") or "",
                *(float(rect.attrib[name]) for name in ("x", "y", "width", "height")),
                max(float(each.attrib["x"]) + len(each.text or "") * 7.3 for each in texts),
            )
        )
    paths = [path.attrib["d"] for path in root.findall(f"{SVG}path")]
    edges = [[float(number) for number in re.findall(r"-?[\d.]+", path)] for path in paths]
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    return boxes, edges, (width, height)


def check(text: str, expected: Box) -> list[Read]:
    """Boxes apart and inside the picture, texts inside their boxes, each edge from a parent to its child."""
    boxes, edges, (width, height) = read(text)
    for box in boxes:
        assert box.left >= 0
        assert box.right <= width
        assert box.bottom <= height
        assert box.longest <= box.right + 0.1
    for place, one in enumerate(boxes):
        for other in boxes[place + 1 :]:
            assert (
                one.right <= other.left or other.right <= one.left or one.bottom <= other.top or other.bottom <= one.top
            )
    number = 0
    wanted: list[list[float]] = []

    def walk(node: Box, parent: Read | None) -> None:
        nonlocal number
        box = boxes[number]
        number += 1
        if parent is not None:
            wanted.append([parent.left + parent.width / 2, parent.bottom, box.left + box.width / 2, box.top])
        for child in node.children:
            walk(child, box)

    walk(expected, None)
    assert number == len(boxes)
    ends = [[*edge[:2], *edge[-2:]] for edge in edges]
    for found, want in zip(ends, wanted, strict=True):
        assert found == pytest.approx(want, abs=0.11)
    return boxes


def name(leaf: LeafId) -> str:
    return "ROLCSN"[leaf]


SIZES = Cardinalities(
    {leaf: LeafSize(1000, 10) for leaf in leaf_ids(3)}, {frozenset(leaf_ids(2)): 0.001, frozenset(leaf_ids(3)): 0.001}
)
DRAWN = tree(tree(0, 1), 2)


def test_a_delta_tree_with_its_terms_and_figures() -> None:
    changed = frozenset(leaf_ids(3))
    actual = {frozenset(leaf_ids(2)): Figures(19, 0.25, 4_200_000), frozenset([LeafId(2)]): Figures(900, 3, 512)}
    box = of_delta_tree(DRAWN, name, changed, estimates(DRAWN, SIZES), actual)
    boxes = check(svg(box, "The view v"), box)
    assert [each.texts for each in boxes] == [
        ["Δ(R ⋈ O ⋈ L)", "Δ(R ⋈ O) ⋈ L", "R' ⋈ O' ⋈ ΔL", "estimated 30 rows"],
        ["Δ(R ⋈ O)", "ΔR ⋈ O", "R' ⋈ ΔO", "estimated 20 rows", "actual 19 rows · 250 ms · 4.2 MB"],
        ["ΔR", "estimated 10 rows"],
        ["ΔO", "estimated 10 rows"],
        ["ΔL", "estimated 10 rows", "actual 900 rows · 3.0 s · 512 B"],
    ]
    assert [each.classes for each in boxes][1:] == [["node"], ["node"], ["node"], ["node", "off"]]
    assert "The view v" in svg(box, "The view v")


def test_leaves_without_changes_are_drawn_as_such() -> None:
    box = of_delta_tree(DRAWN, name, frozenset([LeafId(2)]), {})
    boxes = check(svg(box, ""), box)
    assert [(each.texts, "idle" in each.classes) for each in boxes] == [
        (["Δ(R ⋈ O ⋈ L)", "R ⋈ O ⋈ ΔL"], False),
        (["Δ(R ⋈ O)"], True),
        (["R (no changes)"], True),
        (["O (no changes)"], True),
        (["ΔL"], False),
    ]


def test_a_plan_has_a_box_for_each_line_that_explain_prints() -> None:
    lowered = lower("SELECT r.v, s.w FROM r JOIN s ON r.k = s.k WHERE r.v > 1", TABLES, functions=None)
    drawn = outline(lowered.plan, {})
    box = of_plan(drawn, {(): Figures(5), (0, 0): Figures(7, 1)}, {(0, 0): Figures(6, 2, 10_000_000)})
    boxes = check(svg(box, "plan"), box)
    assert [each.title.replace("\n", " ") for each in boxes] == [line.strip() for line in lines(drawn)]
    assert boxes[0].texts[0] == "Project"
    assert boxes[0].texts[-1] == "estimated 5 rows"
    assert boxes[2].texts[-2:] == ["estimated 7 rows · 1.0 s", "actual 6 rows · 2.0 s · 10 MB"]


def test_names_of_any_kind_are_written_and_read_back() -> None:
    awkward = "a<b> & \"c\" 'd' ]]> \x00\x1b Ωmega"
    box = Box(awkward, ("two\nlines\there",), children=(Box("x" * 200),))
    boxes = check(svg(box, awkward), box)
    assert boxes[0].texts == ["a<b> & \"c\" 'd' ]]> \ufffd\ufffd Ωmega", "two lines here"]
    assert boxes[1].texts == ["x" * 63 + "…"]
    assert boxes[1].title == "x" * 200
    root = ElementTree.fromstring(svg(box, awkward))  # noqa: S314 (our own text)
    assert root.attrib["aria-label"] == awkward.replace("\x00\x1b", "\ufffd\ufffd")


def test_one_box_stands_alone() -> None:
    boxes, edges, _ = read(svg(Box("ΔR"), "alone"))
    assert len(boxes) == 1
    assert edges == []


@pytest.mark.parametrize(
    ("guess", "truth", "off"), [(10, 99, False), (10, 100, True), (100, 10, True), (0, 9, False), (0, 10, True)]
)
def test_estimates_that_are_off_by_ten_stand_out(guess: int, truth: int, off: bool) -> None:
    assert Box("b", estimated=Figures(guess), actual=Figures(truth)).is_off is off
    assert not Box("b", estimated=Figures(guess)).is_off


boxes_of_any_shape = st.recursive(
    st.builds(Box, st.text(max_size=70), st.lists(st.text(max_size=20), max_size=2).map(tuple)),
    lambda below: st.builds(
        Box, st.text(max_size=30), children=st.lists(below, min_size=1, max_size=4).map(tuple), idle=st.booleans()
    ),
    max_leaves=12,
)


@settings(max_examples=60, deadline=None)
@given(boxes_of_any_shape, st.text(max_size=90))
def test_boxes_of_any_tree_are_apart_and_tied_to_their_parents(box: Box, heading: str) -> None:
    text = svg(box, heading)
    assert svg(box, heading) == text
    check(text, box)


@pytest.mark.parametrize("seed", range(10))
def test_any_delta_tree_is_drawn_whole(seed: int) -> None:
    random = Random(seed)
    made = random_tree(random, leaf_ids(6))
    changed = frozenset(random.sample(leaf_ids(6), random.randint(1, 6)))
    box = of_delta_tree(made, name, changed, {})
    found = check(svg(box, "tree"), box)
    assert sorted(each.texts[0][-1] for each in found if len(each.texts[0]) == 2) == sorted(map(name, changed))
