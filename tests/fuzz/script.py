"""A failing case as a script that needs Headwater and Spark alone."""

from __future__ import annotations

from tests.fuzz.case import Case
from tests.fuzz.histories import schema, values
from tests.fuzz.trial import Failure

_HEAD = '''"""{title}"""

import tempfile
from collections import Counter

import headwater

folder = tempfile.mkdtemp()
lake = headwater.connect(f"{{folder}}/lake")
spark = lake.spark
TABLES = {tables!r}


def expected(text, csn):
    """Spark's own answer over the versions of the tables that the csn means."""
    for name in TABLES:
        units = [u.version for u in lake.units_of_work() if u.table == name and u.csn <= csn]
        version = max(units, default=tracked[name])
        spark.sql(f"SELECT * FROM delta.`{{folder}}/{{name}}` VERSION AS OF {{version}}").createOrReplaceTempView(name)
    return spark.sql(text)


def show(view, text, at=None):
    csn = next(each.csn for each in lake.status().views if each.name == view) if at is None else at
    got, want = lake.read(view, at=at), expected(text, csn)
    bags = [Counter(map(str, frame.collect())) for frame in (got, want)]
    print(f"{{view}} at csn {{csn}}: {{'as expected' if bags[0] == bags[1] else 'WRONG'}}")
    print("  expected", dict(bags[1]), "\\n  got     ", dict(bags[0]))


'''


def script(case: Case, failure: Failure, title: str) -> str:
    lines = [_HEAD.format(title=title, tables=[each.table for each in case.contents])]
    for each in case.contents:
        feed = "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
        lines.append(_sql(f"CREATE TABLE {_ref(each.table)} ({schema(each.table)}) USING delta {feed}"))
        if each.rows:
            lines.append(_sql(f"INSERT INTO {_ref(each.table)} VALUES {values(each.rows)}"))
        lines.append(f'lake.track("{each.table}", f"{{folder}}/{each.table}")')
    versions = {each.table: int(bool(each.rows)) for each in case.contents}
    lines.append(f"tracked = {versions!r}\n")
    for view in case.views:
        lines.append(f'{view.name.upper()} = """{view.text()}"""')
        head = f"CREATE MATERIALIZED VIEW {view.name} OPTIONS (refresh = 'incremental') AS"
        lines.append(f'lake.sql(f"{head} {{{view.name.upper()}}}")')
    last = case.views[-1].name
    lines.append(f'TEXT = """{case.text_of(last)}"""')
    lines.append(f'show("{last}", TEXT)')
    for number, commits in enumerate(case.rounds, start=1):
        lines.append(f"\nprint('round {number}')\nstart = lake.capture()")
        lines += [_sql(commit.text(_ref(commit.table))) for commit in commits]
        lines += [f'print(lake.refresh("{view.name}"))' for view in case.views]
        lines.append(f'show("{last}", TEXT)')
    if failure.commit is not None:
        lines.append(f'show("{last}", TEXT, at=start + {failure.commit})')
    return "\n".join(lines) + "\n"


def _ref(table: str) -> str:
    return f"delta.`{{folder}}/{table}`"


def _sql(statement: str) -> str:
    return f'spark.sql(f"""{statement}""")'
