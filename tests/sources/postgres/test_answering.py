"""Rows of tables by keys and by one another, in one snapshot."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import closing
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from psycopg import sql

from headwater.sources.postgres import answering
from headwater.sources.postgres.answering import Answer, Followed, Relation, can_be_asked_by, can_follow
from headwater.sources.postgres.connection import connect
from headwater.sources.postgres.tables import SourceTable
from tests.sources.postgres.conftest import Source


@pytest.fixture
def table(source: Source) -> SourceTable:
    source.run(
        'CREATE TABLE "O" (k int, "Na""me" text, n numeric(6,2), d date, u uuid, j jsonb)',
        """INSERT INTO "O" SELECT i, 'n''' || i % 3, i / 2.0, date '2024-01-01' + i % 4,
           ('00000000-0000-0000-0000-' || lpad((i % 5)::text, 12, '0'))::uuid, '{}' FROM generate_series(1, 20) AS i""",
        """INSERT INTO "O" VALUES (NULL, NULL, NULL, NULL, NULL, NULL), (1, 'n''1', 0.5, '2024-01-02', NULL, NULL)""",
    )
    return source.describe("public.O")[0]


def rows_of(source: Source, answer: Answer) -> list[list[tuple[Any, ...]]]:
    """The rows that each relation was answered with."""
    found: list[list[tuple[Any, ...]]] = [[] for _ in answer.relations]
    with closing(connect(source.address)) as connection:
        for place, row in answer.rows(connection, source.name):
            found[place].append(row)
    assert answer.shipped == sum(map(len, found))
    return found


def by(table: SourceTable, columns: list[str], keys: list[tuple[Any, ...]]) -> Relation:
    return Relation(table, tuple(columns), keys)


# ---------------------------------------------------------------------- one relation


@pytest.mark.parametrize(
    ("columns", "keys", "expected"),
    [
        (["k"], [(1,), (7,), (99,), (None,)], [1, 1, 7]),
        (['Na"me'], [("n'1",), ("'; DROP TABLE x; --",)], [1, 1, 4, 7, 10, 13, 16, 19]),
        (["n"], [(Decimal("0.50"),), (Decimal(10),)], [1, 1, 20]),
        (["d", "k"], [(date(2024, 1, 2), 5), (None, 1)], [5]),
        (["u"], [("00000000-0000-0000-0000-000000000002",), ("no uuid",)], [2, 7, 12, 17]),
        (["k"], [], []),
    ],
)
def test_rows_by_keys(
    source: Source, table: SourceTable, columns: list[str], keys: list[tuple[Any, ...]], expected: list[int]
) -> None:
    answer = Answer([by(table, columns, keys)])
    assert sorted(row[0] for row in rows_of(source, answer)[0]) == expected
    assert answer.snapshot is not None


def test_all_rows_and_many_keys_in_bounded_lists(
    source: Source, table: SourceTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(rows_of(source, Answer([Relation(table)]))[0]) == 22
    monkeypatch.setattr(answering, "KEYS_A_QUERY", 3)
    answer = Answer([by(table, ["k"], [(k,) for k in range(1, 11)])])
    assert len(rows_of(source, answer)[0]) == 11
    assert answer.queries == 4


def test_all_lists_of_keys_see_one_snapshot(
    source: Source, table: SourceTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answering, "KEYS_A_QUERY", 1)
    answer = Answer([by(table, ["k"], [(k,) for k in (2, 3, 4)])])
    with closing(connect(source.address)) as connection:
        rows = answer.rows(connection, source.name)
        found = [next(rows)]
        source.run('DELETE FROM "O"')
        found += rows
    assert sorted(row[0] for _, row in found) == [2, 3, 4]


def test_columns_whose_equality_differs_are_no_keys(table: SourceTable) -> None:
    assert [column.name for column in table.columns if can_be_asked_by(table, column.name)] == [
        "k",
        'Na"me',
        "n",
        "d",
        "u",
    ]
    assert not can_be_asked_by(table, "nowhere")


def test_a_number_declared_as_a_text_is_no_key(source: Source) -> None:
    """'1.0' and '1.00' are one number and two texts, and 'one' is no number."""
    source.run("CREATE TABLE d (n numeric, k int, t text, m numeric)")
    (table,) = source.describe("public.d", types={"n": "string", "k": "string", "t": "string", "m": "decimal(8,2)"})
    assert [column.name for column in table.columns if can_be_asked_by(table, column.name)] == ["t", "m"]


def test_a_row_that_equals_two_keys_is_shipped_once(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    """A collation may take 'a' and 'A' for one text; the two may be in two lists of keys."""
    source.run(
        "CREATE COLLATION blind (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
        "CREATE TABLE c (t text COLLATE blind)",
        "INSERT INTO c VALUES ('a'), ('A'), ('b')",
    )
    monkeypatch.setattr(answering, "KEYS_A_QUERY", 1)
    (table,) = source.describe("public.c")
    assert sorted(rows_of(source, Answer([by(table, ["t"], [("a",), ("A",)])]))[0]) == [("A",), ("a",)]


def test_a_key_that_a_domain_refuses_is_no_rows_key(source: Source) -> None:
    source.run(
        "CREATE DOMAIN positive AS int NOT NULL CHECK (value > 0)",
        "CREATE TABLE p (k positive)",
        "INSERT INTO p VALUES (1), (2)",
    )
    (table,) = source.describe("public.p")
    assert rows_of(source, Answer([by(table, ["k"], [(-1,), (2,)])])) == [[(2,)]]


def test_a_text_with_a_zero_character_is_no_rows_key(source: Source) -> None:
    source.run("CREATE TABLE z (k varchar(3))", "INSERT INTO z VALUES ('a')")
    (table,) = source.describe("public.z")
    assert rows_of(source, Answer([by(table, ["k"], [("a\0",), ("a",), ("abcd",)])])) == [[("a",)]]


# ---------------------------------------------------------------------- several


def test_each_row_of_relations_joined_in_the_source_is_shipped_once(source: Source) -> None:
    """Duplicates stay, rows that several others lead to are not repeated, NULLs lead nowhere."""
    source.run(
        "CREATE TABLE a (k int, b int)",
        "CREATE TABLE b (k int, c text)",
        "CREATE TABLE c (k text, v int)",
        "INSERT INTO a VALUES (1, 10), (1, 10), (1, 11), (1, NULL), (2, 10), (3, 12), (NULL, 10)",
        "INSERT INTO b VALUES (10, 'x'), (10, 'x'), (10, 'y'), (11, 'y'), (12, 'z'), (NULL, 'y'), (11, NULL)",
        "INSERT INTO c VALUES ('x', 1), ('x', 1), ('y', 2), ('z', 3), (NULL, 4)",
    )
    a, b, c = source.describe("public.a", "public.b", "public.c")
    answer = Answer(
        [
            by(a, ["k"], [(1,), (2,), (7,)]),
            Relation(b, follows=(Followed(0, (("k", "b"),)),)),
            Relation(c, follows=(Followed(1, (("k", "c"),)),)),
        ]
    )
    found = [Counter(rows) for rows in rows_of(source, answer)]
    assert found[0] == Counter({(1, 10): 2, (1, 11): 1, (1, None): 1, (2, 10): 1})
    assert found[1] == Counter({(10, "x"): 2, (10, "y"): 1, (11, "y"): 1, (11, None): 1})
    assert found[2] == Counter({("x", 1): 2, ("y", 2): 1})
    assert answer.queries == 1


def test_a_row_of_nulls_alone_is_a_row(source: Source) -> None:
    source.run(
        "CREATE TABLE a (k int, v int)",
        "CREATE TABLE b (v int, w int)",
        "INSERT INTO a VALUES (1, 1)",
        "INSERT INTO b VALUES (NULL, NULL), (1, 2)",
    )
    a, b = source.describe("public.a", "public.b")
    assert rows_of(source, Answer([by(a, ["k"], [(1,)]), Relation(b)])) == [[(1, 1)], [(None, None), (1, 2)]]


@pytest.mark.parametrize("keys", [[], [(None,)], [(99,)]])
def test_nothing_follows_from_no_keys(source: Source, table: SourceTable, keys: list[tuple[Any, ...]]) -> None:
    follow = Relation(table, follows=(Followed(0, (("k", "k"),)),))
    assert rows_of(source, Answer([by(table, ["k"], keys), follow])) == [[], []]


def test_keys_and_other_relations_limit_together(source: Source, table: SourceTable) -> None:
    """By keys of its own and by two relations before it."""
    answer = Answer(
        [
            by(table, ["k"], [(k,) for k in range(1, 10)]),
            by(table, ["k"], [(k,) for k in range(5, 15)]),
            Relation(
                table, ("k",), [(k,) for k in range(1, 8)], (Followed(0, (("k", "k"),)), Followed(1, (("k", "k"),)))
            ),
        ]
    )
    assert sorted(row[0] for row in rows_of(source, answer)[2]) == [5, 6, 7]


def test_keys_of_relations_that_others_follow_are_sent_in_one_list(
    source: Source, table: SourceTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two lists may lead to one row of another relation."""
    monkeypatch.setattr(answering, "KEYS_A_QUERY", 2)
    follow = Relation(table, follows=(Followed(0, (("d", "d"),)),))
    answer = Answer([by(table, ["k"], [(k,) for k in range(1, 9)]), follow])
    found = rows_of(source, answer)
    assert (len(found[0]), len(found[1]), answer.queries) == (9, 21, 1)


LINKS = {
    "bool": ["t", "f"],
    "int2": ["-32768", "7"],
    "int4": ["1", "2"],
    "int8": ["9223372036854775807", "0"],
    "numeric(6,2)": ["1.50", "-2.00"],
    "text": ["", "a\tb\nc\\d", "'\"; --", "\\N", "é"],
    "varchar(9)": ["NULL", "{x,y}", " a "],
    "date": ["2024-02-29", "0001-01-01"],
    "uuid": ["00000000-0000-0000-0000-000000000001", "00000000-0000-0000-0000-00000000000a"],
}


@pytest.mark.parametrize("kind", LINKS)
def test_relations_are_joined_by_every_type_that_can_be_a_key(source: Source, kind: str) -> None:
    """Under odd names."""
    source.run(f'CREATE TABLE "A ""1" (k int, "L %s {{x}}" {kind})', f'CREATE TABLE "r0" ("true" {kind}, "K""" int)')
    values = sql.SQL(", ").join(
        sql.SQL("({}, {})").format(place, value) for place, value in enumerate([*LINKS[kind], None])
    )
    source.owner.execute(sql.SQL('INSERT INTO "A ""1" VALUES {}').format(values))
    source.owner.execute('INSERT INTO r0 SELECT "L %s {x}", k FROM "A ""1"')
    a, b = source.describe('public.A "1', "public.r0")
    assert can_follow(b, "true", a, "L %s {x}")
    answer = Answer(
        [by(a, ["k"], [(0,), (len(LINKS[kind]),)]), Relation(b, follows=(Followed(0, (("true", "L %s {x}"),)),))]
    )
    first, second = rows_of(source, answer)
    assert [row[0] for row in first] == [0, len(LINKS[kind])]
    assert second == [(first[0][1], 0)]


def test_only_columns_of_one_type_are_joined_in_the_source(source: Source) -> None:
    source.run(
        "CREATE TABLE a (t text, v varchar(3), u uuid, n numeric(5,0), i int, b bpchar(3), f float8)",
        "CREATE TABLE b (t text, u uuid, n numeric(5,0), i int, b bpchar(3), f float8)",
    )
    a, b = source.describe("public.a", "public.b")
    pairs = {(x.name, y.name) for x in a.columns for y in b.columns if can_follow(a, x.name, b, y.name)}
    assert pairs == {("t", "t"), ("v", "t"), ("u", "u"), ("n", "n"), ("i", "i")}


def test_texts_of_two_collations_are_joined(source: Source) -> None:
    source.run(
        'CREATE TABLE a (k int, t text COLLATE "C")',
        'CREATE TABLE b (t varchar COLLATE "POSIX")',
        "INSERT INTO a VALUES (1, 'x'), (1, 'Y')",
        "INSERT INTO b VALUES ('x'), ('y'), ('Y')",
    )
    a, b = source.describe("public.a", "public.b")
    answer = Answer([by(a, ["k"], [(1,)]), Relation(b, follows=(Followed(0, (("t", "t"),)),))])
    assert sorted(rows_of(source, answer)[1]) == [("Y",), ("x",)]


def test_values_beside_those_of_other_relations_read_as_alone(source: Source) -> None:
    """Types that a cast to text would print otherwise, or that have no equality."""
    source.run(
        "CREATE DOMAIN filled AS text NOT NULL",
        "CREATE TYPE pair AS (x int, y text)",
        """CREATE TABLE a (k int, o bool, c char(5), i inet, j json, x xml, f float8, y bytea, l text[], d filled,
           s char(5), p pair, t timestamptz, v interval)""",
        """INSERT INTO a VALUES (1, true, 'a', '10.0.0.1', '{"a" : 1}', '<a/>', 0.1, '\\x00ff', '{a,NULL,"b c"}', '',
           'b', ROW(NULL, NULL), '2024-01-01 12:00+02', '1 day')""",
        "CREATE TABLE b (k int, w text)",
        "INSERT INTO b VALUES (1, 'w')",
    )
    (a,) = source.describe("public.a", types={"s": "string", "p": "string"})
    (b,) = source.describe("public.b")
    alone = rows_of(source, Answer([Relation(a)]))[0]
    answer = Answer([by(b, ["k"], [(1,)]), Relation(a, follows=(Followed(0, (("k", "k"),)),)), Relation(b)])
    assert rows_of(source, answer) == [[(1, "w")], alone, [(1, "w")]]
    assert alone[0][10:12] == ("b    ", "(,)")


def test_random_chains_against_joins_here(source: Source) -> None:
    """What each relation is answered with, found again by going through all rows."""
    dice = random.Random(5)
    names = ["a", "b", "c", "d"]
    for name in names:
        source.run(f"CREATE TABLE {name} (p int, q int, r int)")
    tables = source.describe(*(f"public.{name}" for name in names))
    for _ in range(25):
        rows = {name: [tuple(dice.choice([None, *range(6)]) for _ in range(3)) for _ in range(12)] for name in names}
        for name in names:
            source.run(f"TRUNCATE {name}")
            with source.owner.cursor() as cursor:
                cursor.executemany(f"INSERT INTO {name} VALUES (%s, %s, %s)", rows[name])
        relations, expected = [], []
        for place, table in enumerate(tables):
            columns = tuple(dice.sample(("p", "q", "r"), dice.randint(1, 2)))
            keys = list({tuple(dice.randrange(6) for _ in columns) for _ in range(8)})
            before = dice.sample(range(place), dice.randint(min(place, 1), min(place, 2)))
            follows = tuple(
                Followed(each, tuple((x, dice.choice("pqr")) for x in dice.sample("pqr", dice.randint(1, 2))))
                for each in before
            )
            by_keys = not follows or dice.random() < 0.5
            relations.append(Relation(table, columns if by_keys else (), keys if by_keys else None, follows))
            expected.append(Counter(row for row in rows[names[place]] if _taken(row, relations[-1], expected)))
        assert [Counter(found) for found in rows_of(source, Answer(relations))] == expected


def _taken(row: tuple[Any, ...], relation: Relation, before: list[Counter[tuple[Any, ...]]]) -> bool:
    def values(of: tuple[Any, ...], columns: Any) -> tuple[Any, ...]:
        return tuple(of["pqr".index(column)] for column in columns)

    if relation.keys is not None and values(row, relation.columns) not in relation.keys:
        return False
    for follow in relation.follows:
        own = values(row, (pair[0] for pair in follow.pairs))
        if None in own or own not in {
            values(other, (pair[1] for pair in follow.pairs)) for other in before[follow.place]
        }:
            return False
    return True
