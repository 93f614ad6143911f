"""The reports of a step as text and as a picture, from the JSON that the catalog keeps."""

from __future__ import annotations

import json
from typing import Any
from xml.etree import ElementTree

from headwater.algebra.plan import LeafId
from headwater.outline import Outline
from headwater.propagate.block_report import BlockReport, ratios
from headwater.propagate.delta_tree import LeafDelta, NodeDelta, n_term
from headwater.propagate.sizing import corrections
from headwater.propagate.tree_json import tree_as_json, tree_of_json
from headwater.step_picture import lines, picture

R, S, T = LeafId(0), LeafId(1), LeafId(2)
PAIR = NodeDelta((LeafDelta(R), LeafDelta(S)))
TREE = NodeDelta((PAIR, LeafDelta(T)))


def report() -> dict[str, Any]:
    found = BlockReport("", "tree", (TREE,), {R: "r", S: "s", T: "t"}, frozenset([R, S]))
    found.seconds = 2.5
    found.seconds_expected = {"tree": 2.0, "n-term": 3.0}
    for leaves, rows in ((frozenset([R]), 10.0), (frozenset([R, S]), 40.0), (frozenset([R, S, T]), 80.0)):
        found.expected[leaves] = found.uncorrected[leaves] = rows
    found.found[frozenset([R])] = {"rows": 10}
    found.found[frozenset([R, S])] = {"rows": 900, "seconds": 0.8, "bytes": 12_000}
    found.found[frozenset([R, S, T])] = {"rows": 70, "seconds": 2.5, "bytes": None}
    told: dict[str, Any] = json.loads(json.dumps(found.as_json()))
    return told


def test_a_tree_is_read_back_as_it_was() -> None:
    for tree in (LeafDelta(R), n_term([S, R, T]), TREE):
        assert tree_of_json(json.loads(json.dumps(tree_as_json(tree)))) == tree


def test_the_lines_tell_what_was_expected_and_what_was_found() -> None:
    assert list(lines([report()])) == [
        "  the view's own block: tree, 2.5 s",
        "    expected tree 2.0 s, n-term 3.0 s",
        "    Δ(r ⋈ s ⋈ t): expected 80 rows, found 70 rows · 2.5 s",
        "      Δ(r ⋈ s): expected 40 rows, found 900 rows · 800 ms · 12 kB",
        "        Δr: expected 10 rows, found 10 rows",
        "        Δs",
        "      t (no changes)",
    ]


def test_the_picture_has_a_box_for_each_change_and_marks_what_was_far_off() -> None:
    text = picture("v", [report()], Outline("Scan r"))
    drawn = ElementTree.fromstring(text)  # noqa: S314 (our own text)
    titles = [each.text for each in drawn.iter() if each.attrib.get("class") == "title"]
    assert titles == ["Δ(r ⋈ s ⋈ t)", "Δ(r ⋈ s)", "Δr", "Δs", "t (no changes)"]
    states = [each.attrib["class"] for each in drawn.iter() if each.attrib.get("class", "").startswith("node")]
    assert states == ["node", "node off", "node", "node", "node idle"]
    assert "the last propagation, by tree" in text


def test_several_blocks_and_products_hang_below_one_box() -> None:
    other = {**report(), "block": "aggregate#1.0", "strategy": "n-term", "trees": [[0, 1], 2]}
    text = picture("v", [report(), other], Outline("Scan r"))
    assert "2 blocks" in text
    assert "input aggregate#1.0" in text
    assert "by tree, n-term" in text


def test_without_a_step_the_plan_is_drawn() -> None:
    assert "its plan" in picture("v", [], Outline("Scan r as r (k)"))


def test_the_newest_report_of_a_set_is_what_counts() -> None:
    older = report()
    older["nodes"][1]["rows"] = 4
    found = ratios([report(), older])
    assert found[frozenset([R, S])] == 900 / 40
    assert corrections(found)[frozenset([R, S])] == 22.5
