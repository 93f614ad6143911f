"""A view's plan as a tree of labels: what explain prints, indented, and what a drawing shows, in boxes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from headwater.algebra.nodes import Aggregate, Match, Node, Nodes, Top, Window
from headwater.algebra.plan import Filter, Generate, Join, Plan, Project, Scan, Union
from headwater.sql.carrying import HIDDEN
from headwater.sql.dialect import to_text


@dataclass(frozen=True, slots=True)
class Outline:
    label: str
    children: tuple[Outline, ...] = ()


def outline(plan: Plan, nodes: Nodes) -> Outline:
    """The plan with its nodes opened up, each where it is read."""

    def below(*plans: Plan) -> tuple[Outline, ...]:
        return tuple(outline(each, nodes) for each in plans)

    match plan:
        case Scan() if plan.table in nodes:
            node = nodes[plan.table]
            return Outline(describe_node(plan.table, node), below(*node.inputs))
        case Scan():
            return Outline(f"Scan {plan.table} as {plan.alias} ({', '.join(plan.columns)})")
        case Filter(child=child, condition=condition):
            return Outline(f"Filter {to_text(condition)}", below(child))
        case Project(child=child, outputs=outputs):
            public = [to_text(value) for name, value in outputs if not name.startswith(HIDDEN)]
            return Outline(f"Project {', '.join(public)}", below(child))
        case Generate(child=child, generator=generator):
            return Outline(f"Generate {to_text(generator)}", below(child))
        case Join(children=children, conditions=conditions):
            on = " AND ".join(to_text(condition) for condition in conditions) or "nothing (cross product)"
            return Outline(f"Join on {on}", below(*children))
        case Union(children=children):
            return Outline("Union all", below(*children))


def lines(tree: Outline, depth: int = 0) -> Iterator[str]:
    yield "  " * depth + tree.label
    for child in tree.children:
        yield from lines(child, depth + 1)


def describe_node(name: str, node: Node) -> str:
    """A node in one line: what it does and by which key it is kept."""
    match node:
        case Aggregate(values=values):
            what = f"Aggregate {', '.join(to_text(value) for _, value in values) or 'distinct rows'}"
        case Match(kind=kind, conditions=conditions):
            what = f"{kind.value.capitalize()} join on {' AND '.join(to_text(c) for c in conditions) or 'nothing'}"
        case Window(values=values):
            what = f"Window {', '.join(to_text(value) for _, value in values)}"
        case Top(limit=limit, offset=offset, order=order):
            what = f"First {limit} rows" + (f" after {offset}" if offset else "")
            what += f" by {', '.join(to_text(each) for each in order)}"
    if isinstance(node, Top):
        how = "from the first rows of its input" if not node.floating else "one key for all rows"
        how = "changes among the view's own rows" if node.carried else how
        return f"{name}: {what}; {how}"
    by = ", ".join(node.key(0))
    if isinstance(node, Aggregate) and node.sums is not None:
        how = "changes added to the view's own rows" if node.carried else "changes added to what was"
        return f"{name}: {what}; {how}, keys ({by})" if by else f"{name}: {what}; {how}"
    return f"{name}: {what}; touched keys ({by})" if by else f"{name}: {what}; one key for all rows"
