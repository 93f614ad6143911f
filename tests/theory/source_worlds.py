"""Random views over random autonomous sources: keys and foreign keys that hold, joins with and without them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random

from sqlglot import exp

from headwater.algebra.plan import Filter, Join, LeafId, Plan, Project, Scan
from headwater.algebra.zset import Row
from headwater.propagate.version_numbers.definition import BaseRelation, ForeignKey
from headwater.propagate.version_numbers.instructions import Tick
from headwater.propagate.version_numbers.numbers import SourceName
from headwater.propagate.version_numbers.self_maintenance import EVERYTHING, NOTHING, SelfMaintenance
from headwater.propagate.version_numbers.updates import Change, Deletion, Insertion, Modification
from tests.theory.autonomous import AutonomousSource, Network, Tables, Warehouse, changed
from tests.theory.worlds import column

COLUMNS = ("k", "f", "v")  # a key, something to refer by, a value


def random_warehouse(random: Random) -> Warehouse:
    """2 to 4 sources with 2 to 5 relations, a view over all of them, and a network in some mood.

    Half of them are orderly: every relation has a key and is entered by it, as self-maintenance likes it.
    """
    orderly = random.random() < 0.5
    if orderly and random.random() < 0.5:
        return random_chain(random)
    relations = _relations(random, orderly)
    plan = _plan(random, relations, orderly)
    means = random.choice((EVERYTHING, EVERYTHING, EVERYTHING, NOTHING, _some(random)))
    return Warehouse.over(plan, relations, _first_rows(random, relations), _network(random), means)


def random_chain(random: Random) -> Warehouse:
    """The shape of [SzeLing00 Example 6]: each relation refers to the next by its key, and the view shows some keys."""
    sources = random.choice((("a", "b", "b"), ("a", "b", "c"), ("a", "a", "b"), ("a", "b")))
    names = [SourceName(name) for name in sources]
    relations = []
    for number, source in enumerate(names):
        enforced = number + 1 < len(names) and names[number + 1] == source and random.random() < 0.5
        foreign = (ForeignKey(("f",), f"t{number + 1}", ("k",)),) if enforced else ()
        relations.append(BaseRelation(f"t{number}", source, ("k",), foreign))
    leaves = [_leaf(number, relation) for number, relation in enumerate(relations)]
    links = tuple(exp.EQ(this=column(f"r{n}.f"), expression=column(f"r{n + 1}.k")) for n in range(len(leaves) - 1))
    shown = ["r0.v", "r1.k", *(f"r{n}.v" for n in range(1, len(leaves)) if random.random() < 0.8)]
    shown += [f"r{len(leaves) - 1}.k"] if random.random() < 0.4 else []
    outputs = tuple((f"o{n}", column(name)) for n, name in enumerate(shown))
    plan = Project(Join(tuple(leaves), links), outputs)
    return Warehouse.over(plan, relations, _first_rows(random, relations[::-1]), _network(random))


def _network(random: Random) -> Network:
    return Network(
        random,
        longest=random.choice((0, 1, 3, 8)),
        loses=random.choice((0.0, 0.0, 0.1, 0.3)),
        doubles=random.choice((0.0, 0.2)),
    )


def _leaf(number: int, relation: BaseRelation) -> Scan:
    return Scan(LeafId(number), relation.table, f"r{number}", COLUMNS, tuple(f"r{number}.{name}" for name in COLUMNS))


def random_schedule(random: Random, warehouse: Warehouse, transactions: int) -> None:
    """Commits at random moments while messages travel; then time until the view has caught up."""
    for _ in range(transactions):
        source = random.choice(list(warehouse.sources.values()))
        warehouse.commit(source.name, random_transaction(random, source, warehouse.view.relations))
        for _ in range(random.choice((0, 0, 1, 2, 5))):
            warehouse.network.pass_time()
            warehouse.hear(Tick())
    warehouse.settle()


def _some(random: Random) -> SelfMaintenance:
    return SelfMaintenance(*(random.random() < 0.5 for _ in range(3)))


def _relations(random: Random, orderly: bool) -> list[BaseRelation]:
    names = [SourceName(f"s{number}") for number in range(random.choice((2, 2, 2, 3, 3, 4)))]
    count = min(5, len(names) + random.choice((1, 2) if orderly else (0, 0, 1)))
    relations: list[BaseRelation] = []
    for number in range(count):
        source = names[number] if number < len(names) else random.choice(names)
        foreign: tuple[ForeignKey, ...] = ()
        referred = [each for each in relations if each.source == source and each.key]
        if referred and random.random() < 0.8:
            foreign = (ForeignKey(("f",), random.choice(referred).table, ("k",)),)
        key = ("k",) if orderly or random.random() < 0.6 else ()
        relations.append(BaseRelation(f"t{number}", source, key, foreign))
    return relations


def _plan(random: Random, relations: Sequence[BaseRelation], orderly: bool) -> Plan:
    order = list(relations)
    random.shuffle(order)
    if len(order) < 4 and random.random() < 0.15:
        order.append(random.choice(order))
    leaves = tuple(_leaf(number, relation) for number, relation in enumerate(order))
    conditions: list[exp.Expr] = []
    for n in range(1, len(leaves)):
        related = [m for m in range(n) if _is_referred(order[n], order[m]) or _is_referred(order[m], order[n])]
        other = random.choice(related) if related else random.randrange(n)
        if random.random() < 0.93:
            conditions.append(_link(random, leaves[n], leaves[other], order[n], order[other], orderly))
        if random.random() < (0.04 if orderly else 0.15):
            pair = (column(random.choice(leaves[n].attributes)), column(random.choice(leaves[other].attributes)))
            conditions.append(random.choice((exp.EQ, exp.LTE, exp.NEQ))(this=pair[0], expression=pair[1]))
    joined: Plan = Join(leaves, tuple(conditions))
    if not orderly and random.random() < 0.4:
        tested = random.choice(random.choice(leaves).attributes)
        joined = Filter(joined, exp.GT(this=column(tested), expression=exp.Literal.number(0)))
    names = [name for leaf in leaves for name in leaf.attributes]
    if orderly:
        shown = [f"r{leaf.leaf}.k" for leaf in leaves if random.random() < 0.5]
        shown += [f"r{leaf.leaf}.v" for leaf in leaves if random.random() < 0.7] or ["r0.v"]
    else:
        shown = sorted(random.sample(names, random.randint(1, len(names))), key=names.index)
    outputs: list[tuple[str, exp.Expr]] = [(f"o{n}", column(name)) for n, name in enumerate(shown)]
    if random.random() < 0.2:
        left, right = (
            exp.Coalesce(this=column(random.choice(names)), expressions=[exp.Literal.number(0)]) for _ in "ab"
        )
        outputs.append(("sum", exp.Add(this=left, expression=right)))
    return Project(joined, tuple(outputs))


def _is_referred(relation: BaseRelation, referred: BaseRelation) -> bool:
    return any(foreign.table == referred.table for foreign in relation.foreign_keys)


def _link(random: Random, one: Scan, other: Scan, here: BaseRelation, there: BaseRelation, orderly: bool) -> exp.Expr:
    for child, parent, relation, referred in ((one, other, here, there), (other, one, there, here)):
        if _is_referred(relation, referred) and random.random() < 0.95:
            return exp.EQ(this=column(child.attributes[1]), expression=column(parent.attributes[0]))
    left, right = random.choice(((0, 1), (1, 0)) if orderly else ((0, 1), (1, 0), (1, 1), (0, 0), (2, 1)))
    return exp.EQ(this=column(one.attributes[left]), expression=column(other.attributes[right]))


def _first_rows(random: Random, relations: Sequence[BaseRelation]) -> dict[str, list[Row]]:
    contents: Tables = {relation.table: Counter() for relation in relations}
    for relation in relations:
        for _ in range(random.randint(2, 6)):
            proposed = changed(contents[relation.table], [Insertion(_row(random, relation, contents))])
            if _holds(relations, {**contents, relation.table: proposed}):
                contents[relation.table] = proposed
    return {table: list(rows.elements()) for table, rows in contents.items()}


def random_transaction(
    random: Random, source: AutonomousSource, relations: Sequence[BaseRelation]
) -> dict[str, list[Change]]:
    """Some changes that leave the source's constraints true; perhaps none, and perhaps several of one row."""
    mine = list({each.table: each for each in relations if each.source == source.name}.values())
    for _ in range(8):
        after: Tables = {table: Counter(rows) for table, rows in source.tables.items()}
        changes: dict[str, list[Change]] = {}
        for _ in range(random.choice((1, 1, 2, 2, 3, 4))):
            relation = random.choice(mine)
            change = _change(random, relation, after)
            after[relation.table] = changed(after[relation.table], [change])
            changes.setdefault(relation.table, []).append(change)
            _follow(random, mine, relation, change, after, changes)
        if _holds(mine, after):
            return changes
    return {}


def _follow(
    random: Random,
    mine: Sequence[BaseRelation],
    relation: BaseRelation,
    change: Change,
    after: Tables,
    changes: dict[str, list[Change]],
) -> None:
    """Rows that refer come with, or go with, the row that they refer to: often."""
    for child in mine:
        if not any(each.table == relation.table for each in child.foreign_keys) or random.random() < 0.4:
            continue
        made: list[Change] = []
        match change:
            case Insertion(row=row):
                made = [Insertion((random.choice((0, 1, 2, 3)), row[0], random.choice((0, 1))))]
            case Deletion(row=row):
                made = [Deletion(each) for each in after[child.table].elements() if each[1] == row[0]]
            case Modification(old=old, new=new) if old[0] != new[0]:
                held = [each for each in after[child.table].elements() if each[1] == old[0]]
                made = [Modification(each, (each[0], new[0], each[2])) for each in held]
        if made:
            after[child.table] = changed(after[child.table], made)
            changes.setdefault(child.table, []).extend(made)


def _change(random: Random, relation: BaseRelation, tables: Tables) -> Change:
    there = sorted(tables[relation.table].elements(), key=repr)
    kind = random.choice((Insertion, Insertion, Deletion, Modification, Modification))
    if kind is Insertion or not there:
        return Insertion(_row(random, relation, tables))
    old = random.choice(there)
    if kind is Deletion:
        return Deletion(old)
    new = list(old)
    position = random.choice((0, 1, 2, 2, 2))
    new[position] = _row(random, relation, tables)[position]
    return Modification(old, tuple(new))


def _row(random: Random, relation: BaseRelation, tables: Tables) -> Row:
    refers: list[int | None] = [0, 0, 1, 1, 2, None]
    for foreign in relation.foreign_keys:
        refers = sorted({row[0] for row in tables[foreign.table]}) or [None]
    return (random.choice((0, 0, 1, 1, 2, 3)), random.choice(refers), random.choice((0, 1, 1, 2, None)))


def _holds(relations: Sequence[BaseRelation], tables: Tables) -> bool:
    for relation in relations:
        rows = list(tables[relation.table].elements())
        if relation.key and len({row[0] for row in rows}) < len(rows):
            return False
        for foreign in relation.foreign_keys:
            keys = {row[0] for row in tables[foreign.table]}
            if any(row[1] is not None and row[1] not in keys for row in rows):
                return False
    return True
