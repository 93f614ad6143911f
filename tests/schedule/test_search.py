"""A* over the LGM graph: against all LGM plans, and the bounds that guide it [He05 §4.1]."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings

from headwater.schedule.cost import Blocks, CostFunction, Linear, PiecewiseLinear, largest_batch
from headwater.schedule.heuristic import AloneBound, BatchBound, LowerBound
from headwater.schedule.plan import is_lgm, is_valid
from headwater.schedule.priced import PricedBound
from headwater.schedule.problem import Arrivals, Counts, Promise, nothing
from headwater.schedule.search import Graph, Node, best_lgm_plan
from headwater.schedule.streams import PAPER_STREAMS, constant, drawn
from tests.schedule.instances import Instance, instances, lgm_plans

BOUNDS = [BatchBound, AloneBound, PricedBound]


def printed_bound(arrivals: Arrivals, promise: Promise) -> LowerBound:
    """h as Lemma 7 has it: Σ ⌊N / b⌋·f(b)."""
    totals = arrivals.totals()[-1]
    largest = [
        max(step[table] for step in arrivals.steps) + largest_batch(function, promise.cost_limit, totals[table])
        for table, function in enumerate(promise.costs)
    ]

    def bound(time: int, processed: Counts) -> float:
        return sum(
            (total - done) // batch * function(batch)
            for function, total, done, batch in zip(promise.costs, totals, processed, largest, strict=True)
            if batch
        )

    return bound


def whole_graph(graph: Graph) -> dict[Node, float]:
    """Every node that can be reached, with the exact cost from it to the destination."""
    exact: dict[Node, float] = {graph.destination: 0.0}

    def visit(node: Node) -> float:
        if node not in exact:
            exact[node] = min(graph.promise.cost(action.counts) + visit(after) for after, action in graph.edges(node))
        return exact[node]

    visit(graph.source)
    return exact


@settings(max_examples=80)
@given(instances(tables=3, refresh_time=4, most=2))
def test_the_search_finds_the_best_of_all_lgm_plans(instance: Instance) -> None:
    plans = lgm_plans(instance)
    least = min(plan.cost(instance.promise) for plan in plans)
    for bound in BOUNDS:
        found = best_lgm_plan(instance.arrivals, instance.promise, bound=bound.of(instance.arrivals, instance.promise))
        assert found.cost == pytest.approx(least, abs=1e-9)
        assert found.plan in plans
        assert found.plan.cost(instance.promise) == pytest.approx(found.cost)


@settings(max_examples=80)
@given(instances(tables=3, refresh_time=4, most=2))
def test_theorem_3_paths_of_the_graph_are_the_lgm_plans(instance: Instance) -> None:
    graph = Graph.of(instance.arrivals, instance.promise)

    def paths(node: Node) -> int:
        return 1 if node == graph.destination else sum(paths(after) for after, _ in graph.edges(node))

    assert paths(graph.source) == len(lgm_plans(instance))


@pytest.mark.parametrize("bound", BOUNDS)
@settings(max_examples=60)
@given(instance=instances(tables=3, refresh_time=12, most=3))
def test_lemma_7_put_right_the_bounds_are_consistent_and_admissible(
    bound: type[AloneBound], instance: Instance
) -> None:
    graph = Graph.of(instance.arrivals, instance.promise)
    estimate = bound.of(instance.arrivals, instance.promise)
    exact = whole_graph(graph)
    assert estimate(*graph.destination) == pytest.approx(0.0, abs=1e-9)
    for node, least in exact.items():
        assert estimate(*node) <= least + 1e-9
        if node != graph.destination:
            for after, action in graph.edges(node):
                assert estimate(*node) <= instance.promise.cost(action.counts) + estimate(*after) + 1e-9


@settings(max_examples=60)
@given(instances(tables=2, refresh_time=12, most=3))
def test_the_real_arrivals_give_the_sharper_bound(instance: Instance) -> None:
    batches, alone = (bound.of(instance.arrivals, instance.promise) for bound in (BatchBound, AloneBound))
    for time, processed in whole_graph(Graph.of(instance.arrivals, instance.promise)):
        assert batches(time, processed) <= alone(time, processed) + 1e-9


@settings(max_examples=40)
@given(instances(tables=2, refresh_time=8, most=3))
def test_for_concave_costs_the_closed_form_is_the_least_over_all_batches(instance: Instance) -> None:
    concave = [function for function in instance.promise.costs if function.is_concave]
    for function in concave:
        largest = max(1, 2 + largest_batch(function, instance.promise.cost_limit, 20))
        least = [0.0]
        for rows in range(1, 21):
            least.append(min(function(q) + least[rows - q] for q in range(1, min(largest, rows) + 1)))
            whole, rest = divmod(rows, largest)
            assert whole * function(largest) + function(rest) == pytest.approx(least[rows])


class TestLemma7AsPrinted:
    def test_is_not_consistent_even_for_linear_costs(self) -> None:
        """Of two tables with cost 1 a row, one is emptied early because the other fills the view."""
        promise = Promise((Linear(1.0), Linear(1.0)), 2.0)
        arrivals = Arrivals.of([(1, 2), (1, 0), (1, 0), (0, 0)])
        graph, printed = Graph.of(arrivals, promise), printed_bound(arrivals, promise)
        falls = [
            printed(*graph.source) - printed(*after) - promise.cost(action.counts)
            for after, action in graph.edges(graph.source)
        ]
        assert max(falls) > 0
        ours = BatchBound.of(arrivals, promise)
        assert all(
            ours(*graph.source) <= promise.cost(action.counts) + ours(*after)
            for after, action in graph.edges(graph.source)
        )

    def test_is_not_admissible_for_costs_that_are_not_concave(self) -> None:
        """Blocks of 3 rows: batches of 4 are possible and bad, batches of 3 are good."""
        promise = Promise((Blocks(3, 1.0), Linear(1.0)), 1.0)
        arrivals = Arrivals.of([(1, 0), (1, 0), (1, 1)] * 4)
        graph, printed = Graph.of(arrivals, promise), printed_bound(arrivals, promise)
        exact = whole_graph(graph)
        assert printed(*graph.source) > exact[graph.source]

    @given(instances(tables=2, refresh_time=8, most=3))
    def test_is_admissible_for_concave_costs(self, instance: Instance) -> None:
        if all(function.is_concave for function in instance.promise.costs):
            graph = Graph.of(instance.arrivals, instance.promise)
            printed = printed_bound(instance.arrivals, instance.promise)
            assert printed(*graph.source) <= whole_graph(graph)[graph.source] + 1e-9


def test_figure_3_the_graph_of_a_small_problem() -> None:
    """Two tables, limit 3: each path from source to destination is a plan; here they part and meet again."""
    promise = Promise((Linear(1.0), Linear(2.0)), 3.0)
    graph = Graph.of(constant((1, 1), 4), promise)
    assert [(node, action.counts) for node, action in graph.edges(graph.source)] == [
        (Node(1, (0, 2)), (0, 2)),  # 2 of the first stay: cost 2
    ]
    assert [(node, action.counts) for node, action in graph.edges(Node(1, (0, 2)))] == [
        (Node(2, (3, 2)), (3, 0)),
        (Node(2, (0, 3)), (0, 1)),
    ]
    assert [node for node, _ in graph.edges(Node(3, (4, 2)))] == [graph.destination]


def test_when_the_view_never_fills_there_is_one_action_the_refresh() -> None:
    promise = Promise((Linear(1.0),), 100.0)
    found = best_lgm_plan(constant((1,), 9), promise)
    assert [action.counts for action in found.plan.actions] == [(0,)] * 9 + [(10,)]
    assert found.cost == found.lower_bound == 10.0


def test_a_limit_of_nothing_processes_everything_at_once() -> None:
    found = best_lgm_plan(constant((1, 2), 3), Promise((Linear(1.0), Linear(1.0, 1.0)), 0.0))
    assert [action.counts for action in found.plan.actions] == [(1, 2)] * 4


@settings(max_examples=50)
@given(instances(tables=3, refresh_time=10, most=3))
def test_within_a_tenth_it_is_within_a_tenth(instance: Instance) -> None:
    exact = best_lgm_plan(instance.arrivals, instance.promise)
    rough = best_lgm_plan(instance.arrivals, instance.promise, within=0.1)
    assert is_valid(rough.plan, instance.arrivals, instance.promise)
    assert is_lgm(rough.plan, instance.arrivals, instance.promise)
    assert rough.lower_bound - 1e-9 <= exact.cost <= rough.cost + 1e-9
    assert rough.cost <= 1.1 * exact.cost + 1e-9


FOUR: tuple[CostFunction, ...] = (
    PiecewiseLinear(((0, 1.0), (10, 5.0), (1000, 8.0))),
    Linear(0.2, 0.5),
    Linear(0.05, 2.0),
    Linear(0.1, 1.0),
)


@pytest.mark.parametrize(("stream", "nodes"), [("SS", 100), ("SU", 2_000), ("FS", 500)])
def test_a_thousand_steps_of_two_tables_are_searched_exactly(stream: str, nodes: int) -> None:
    arrivals = drawn([PAPER_STREAMS[stream]] * 2, 1000, Random(1))
    assert best_lgm_plan(arrivals, Promise(FOUR[:2], 20.0)).expanded < nodes


def test_many_steps_of_four_tables_are_searched_within_a_tenth() -> None:
    arrivals = drawn([PAPER_STREAMS["FS"]] * 4, 500, Random(1))
    promise = Promise(FOUR, 20.0)
    found = best_lgm_plan(arrivals, promise, within=0.1)
    assert found.expanded < 5_000
    assert found.cost <= 1.1 * found.lower_bound
    assert is_lgm(found.plan, arrivals, promise)


def test_the_price_of_a_shared_limit_sharpens_the_bound_for_more_tables() -> None:
    arrivals = drawn([PAPER_STREAMS["FU"]] * 4, 300, Random(1))
    promise = Promise(FOUR, 20.0)
    free, priced = PricedBound.at_price(0.0, arrivals, promise), PricedBound.of(arrivals, promise)
    source = (-1, nothing(4))
    assert free(*source) == pytest.approx(AloneBound.of(arrivals, promise)(*source))
    assert priced(*source) > 1.02 * free(*source)
