"""docs/limitations.md from the table of constructs: ``python -m headwater.sql.limitations > docs/limitations.md``."""

from __future__ import annotations

import sys

from headwater.sql.constructs import REFUSED

_HEAD = """# What a view may hold

A view is kept incrementally if its text is made of:

- SELECT with any deterministic built-in expressions and functions of Spark SQL, `*`, `t.*` and `* EXCEPT (...)`;
- inner, cross and comma joins of any number of tracked tables, with any condition, `USING` and `NATURAL`, self-joins;
- WHERE;
- subqueries in FROM and common table expressions made of the same;
- UNION ALL, also below a join.

Duplicates and NULLs are exactly Spark's. `SELECT *` means the columns that the tables have at CREATE.

Everything else is refused at CREATE, before anything is made, with a reason code and the place in the text. Nothing is
ever recomputed silently. The codes are stable:

| code | what is refused | what to do | for example |
|---|---|---|---|
"""

_TAIL = """
## Tables

- A tracked table needs Delta's change feed (`delta.enableChangeDataFeed`); `track` checks that and, if told, switches
  it on.
- What happened while the feed was off, in versions whose files VACUUM has removed, or before a table was replaced
  can't be known: the error names table and version, other views go on, and `resync` begins anew with the table.
- A column that a view uses must keep its name and type. Columns may be added at any time; those that no view uses may
  go.
- Delta commit timestamps order the commits of several tables. On one machine that is exact; give `clock_skew` if
  writers run on machines whose clocks disagree.
"""


def markdown() -> str:
    rows = []
    for construct in REFUSED:
        example = f"`{construct.example}`".replace("|", "\\|") if construct.example else ""
        rows.append(f"| `{construct.code}` | {construct.title} | {construct.remedy} | {example} |")
    return _HEAD + "\n".join(rows) + "\n" + _TAIL


if __name__ == "__main__":
    sys.stdout.write(markdown())
