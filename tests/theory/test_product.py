"""A linear plan as a sum of products, and the graph of a product's join conditions."""

from __future__ import annotations

import pytest
from sqlglot import exp

from headwater.algebra.plan import Filter, Generate, Join, LeafId, Plan, Project, Union, scans
from headwater.algebra.product import JoinGraph, products
from headwater.algebra.zset import ZSet
from headwater.engine.reference import evaluate_plan, latest_csn
from tests.theory.worlds import column, natural_join, random_world, scan


@pytest.mark.parametrize("chunk", range(4))
def test_a_plan_is_the_sum_of_its_products(chunk: int) -> None:
    for seed in range(chunk * 75, (chunk + 1) * 75):
        world = random_world(seed, passed=True)
        inputs = {leaf.leaf: world.history.state(leaf.table, world.last) for leaf in scans(world.plan)}
        together = ZSet()
        for product in products(world.plan):
            assert len(set(product.leaves)) == len(product.leaves)
            own = {LeafId(place): inputs[leaf] for place, leaf in enumerate(product.leaves)}
            together += evaluate_plan(product.plan(), own, latest_csn)
        assert together.counts() == evaluate_plan(world.plan, inputs, latest_csn).counts(), seed


def renamed(plan: Plan, prefix: str) -> Plan:
    return Project(plan, tuple((f"{prefix}.{name}", column(name)) for name in plan.attributes))


def equal(left: str, right: str) -> exp.EQ:
    return exp.EQ(this=column(left), expression=column(right))


def union_below_a_join() -> Plan:
    sides = Union((renamed(scan(0, "a"), "p"), renamed(scan(1, "b"), "q")), ("u.k", "u.v"))
    return Join((sides, scan(2, "c")), (equal("u.k", "r3.k"),))


def test_a_union_below_a_join_is_distributed_over_it() -> None:
    found = products(union_below_a_join())
    assert [product.leaves for product in found] == [(0, 2), (1, 2)]
    assert [product.conditions for product in found] == [(equal("r1.k", "r3.k"),), (equal("r2.k", "r3.k"),)]
    assert [name for name, _ in found[1].outputs] == ["u.k", "u.v", "r3.k", "r3.v"]


def test_an_engine_with_types_casts_where_a_union_widens() -> None:
    def cast(name: str, value: exp.Expr) -> exp.Expr:
        return exp.cast(value, "BIGINT") if name == "u.k" else value

    found = products(union_below_a_join(), cast)
    assert found[0].conditions[0].sql("spark") == "(CAST(`r1.k` AS BIGINT)) = `r3.k`"
    assert found[0].outputs[1] == ("u.v", column("r1.v"))


def test_expressions_of_a_projection_keep_together_where_they_are_used() -> None:
    total = exp.Add(this=column("r1.k"), expression=column("r1.v"))
    doubled = exp.Mul(this=column("s"), expression=exp.Literal.number(2))
    plan = Project(Filter(Project(scan(0, "a"), (("s", total),)), equal("s", "s")), (("d", doubled),))
    (product,) = products(plan)
    assert product.outputs[0][1].sql("spark") == "(`r1.k` + `r1.v`) * 2"
    assert product.conditions[0].sql("spark") == "(`r1.k` + `r1.v`) = (`r1.k` + `r1.v`)"
    assert total == exp.Add(this=column("r1.k"), expression=column("r1.v"))


def test_conditions_on_what_a_generator_makes_are_late_and_tie_nothing() -> None:
    exploded = Generate(scan(0, "a"), exp.Anonymous(this="explode", expressions=[column("r1.v")]), False, ("g.x",))
    plan = Join((exploded, scan(1, "b"), scan(2, "c")), (equal("g.x", "r2.k"), equal("r2.k", "r3.k")))
    (product,) = products(plan)
    assert [product.is_late(condition) for condition in product.conditions] == [True, False]
    assert product.generators[0].outputs == ("g.x",)
    assert product.join_graph() == JoinGraph(
        frozenset(map(LeafId, range(3))), frozenset({frozenset({LeafId(1), LeafId(2)})})
    )


def test_the_join_graph_of_a_natural_join_is_a_star() -> None:
    (product,) = products(natural_join("a", "b", "c"))
    assert product.join_graph().edges == {frozenset({0, 1}), frozenset({0, 2})}
    assert product.join_graph().components(frozenset(map(LeafId, (1, 2)))) == (frozenset({1}), frozenset({2}))


def test_a_join_graph_has_edges_of_two_leaves_or_more() -> None:
    with pytest.raises(ValueError, match="two or more"):
        JoinGraph(frozenset({LeafId(0)}), frozenset({frozenset({LeafId(0)})}))


def test_a_product_as_a_plan_tests_what_a_generator_makes_after_it() -> None:
    exploded = Generate(scan(0, "a"), exp.Anonymous(this="explode", expressions=[column("r1.v")]), False, ("g.x",))
    late = exp.GT(this=column("g.x"), expression=exp.Literal.number(1))
    (product,) = products(Filter(Join((exploded, scan(1, "b")), (equal("r1.k", "r2.k"),)), late))
    plan = product.plan()
    assert products(plan) == (product,)
    assert isinstance(plan, Project)
    assert isinstance(plan.child, Filter)
    assert plan.child.condition == late
    assert isinstance(plan.child.child, Generate)
