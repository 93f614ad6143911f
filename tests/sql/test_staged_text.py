"""The stages of a delta tree as SQL: the renderer of propagation queries writes them as they are."""

from __future__ import annotations

import sqlglot
from sqlglot import exp

from headwater.algebra.time import Csn, Interval
from headwater.propagate.strategy import ByTree, change_over
from headwater.propagate.tree_stages import NewSide
from headwater.sql.lower import lower
from headwater.sql.relations import COUNT, CSN, Sources
from headwater.sql.render import view_delta_sql
from tests.sql.test_render import TABLES, Moments, reads
from tests.theory.trees import tree

INTERVAL = Interval(Csn(0), Csn(2))


def texts(new_side: NewSide) -> list[exp.Expr]:
    """Stage by stage and then the answer, a temporary view for each stage."""
    text = "SELECT r.v, s.w, t.u FROM r JOIN s ON r.k = s.k JOIN t ON s.k = t.k WHERE r.v > 1"
    lowered = lower(text, TABLES, functions=None)
    delta = change_over(lowered.plan, INTERVAL, Moments(), ByTree((tree(tree(0, 1), 2),)), new_side=new_side)
    staged: dict[tuple[str, Interval], str] = {}
    found = []
    for number, stage in enumerate(delta.stages):
        found.append(view_delta_sql(stage.queries, stage.attributes, Sources(Moments(), staged=staged)))
        staged[stage.name, INTERVAL] = f"__hw_stage_{number}"
    found.append(view_delta_sql(delta.answer, ["v", "w", "u"], Sources(Moments(), staged=staged)))
    parsed = [sqlglot.parse_one(each, read="spark") for each in found]
    assert all(isinstance(each, exp.Query) for each in parsed)
    return parsed


def test_a_stage_is_one_statement_and_is_read_by_its_name() -> None:
    stage, answer = texts(NewSide.LEAVES)
    assert reads(stage) == ["r@10", "r[11..12]", "r[11..12]", "s@10", "s[11..12]"]
    assert stage.named_selects == ["r.v", "s.k", "s.w", COUNT, CSN]
    assert reads(answer) == ["r@10", "r[11..12]", "s@10", "s[11..12]", "t@10", "t[11..12]"]
    assert [table.name for table in answer.find_all(exp.Table)].count("__hw_stage_0") == 1
    assert answer.named_selects == ["v", "w", "u", COUNT, CSN]


def test_a_part_that_stands_as_its_stage_is_read_from_there() -> None:
    _, answer = texts(NewSide.PARTS)
    assert reads(answer) == ["r@10", "s@10", "t@10", "t[11..12]", "t[11..12]"]
    assert [table.name for table in answer.find_all(exp.Table)].count("__hw_stage_0") == 2


def test_no_join_of_a_stage_is_a_cross_product() -> None:
    for new_side in NewSide:
        for text in texts(new_side):
            assert all(join.args.get("on") for join in text.find_all(exp.Join))
