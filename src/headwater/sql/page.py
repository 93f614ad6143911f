"""docs/sql.md from the table of constructs: ``python -m headwater.sql.page > docs/sql.md``."""

from __future__ import annotations

import sys

from headwater.sql.constructs import KEPT, RECOMPUTABLE, REFUSED, Method

_HEAD = """# What a view may hold

Duplicates and NULLs are exactly Spark's, at every moment up to the high-water mark. `SELECT *` means the columns that
the tables have at CREATE. `headwater explain` shows how a view is kept.

## What is kept incrementally, and how

"""

_KEYS = """
- **Sums of doubles** do not drift: nothing is added to a stored sum, a touched group is added up anew from its rows.
  Rows are added up in one fixed order, so that the same rows give the same sum to the last bit; Spark's own answer
  may differ in its last digits, as it does from run to run.
- **Ties.** Where Spark's own answer depends on the order of rows that tie (row_number, lag, LIMIT, collect_list),
  Headwater orders them by all their columns, when the view is made as when it changes, so that the same rows give the
  same answer again.
- **IN as a value** (`SELECT v IN (SELECT ...)`, not in WHERE) has two values in Spark, not three: what would be NULL is
  false, under NOT too. So it has here.
- **-0.0** is stored as 0.0, which Spark takes to be equal.
- **A text that fails over some row** (a division by zero, a cast) fails at CREATE and at every refresh, with the code
  `EXPRESSION_FAILS`, until the row is corrected. Since the moments between have no answer then, the view is recomputed
  once (`FAILED_BETWEEN`); with `refresh = 'strict'` it is not, and says so.
- **Both readings are compared.** Before a view is made, Spark's plan of the text is compared with that of our printing
  of it, and the answer of our plan with Spark's over a few made-up rows with duplicates, NULLs and the values that
  the text compares with; where rows tie, if breaking ties one way and the other comes to the same. A difference is
  `MISREAD`.

| construct | method | tests |
|---|---|---|
"""

_REFUSED = """
## What is refused

At CREATE, before anything is made, with a reason code and the place in the text. Where the last column says
*recomputed*, a view that leaves `refresh` out, or has it at `auto`, is made all the same and recomputed by every
refresh, which CREATE, `explain` and each refresh say with the code; `incremental` and `strict` refuse it. Nothing is
ever recomputed silently. The codes are stable:

| code | what is refused | what to do | for example | by default |
|---|---|---|---|---|
"""

_TAIL = """
## Tables

- A tracked table needs Delta's change feed (`delta.enableChangeDataFeed`); `track` checks that and, if told, switches
  it on.
- What happened while the feed was off, in versions whose files VACUUM has removed, or before a table was replaced
  can't be known: the error names table and version, other views go on, and `resync` begins anew with the table.
- A column that a view uses must keep its name and type, and be the same column: another one that has taken its name is
  told. Columns may be added at any time; those that no view uses may go, by DROP COLUMN. A commit that overwrites the
  schema and drops any column is told, since Delta reads no changes across it; `resync` begins anew with the table.
- A column that was added, renamed or dropped is seen by CREATE once a row has changed, or after `resync`; until then a
  view on it is not made.
- Delta commit timestamps order the commits of several tables. On one machine that is exact; give `clock_skew` if
  writers run on machines whose clocks disagree.
"""


def markdown() -> str:
    methods = [f"- **{method.name.lower()}**: {method.value}." for method in Method]
    kept = [
        f"| {each.title} | {each.method.name.lower()} | {', '.join(f'`{test}`' for test in each.tests)} |"
        for each in KEPT
    ]
    refused = []
    for construct in REFUSED:
        example = f"`{construct.example}`".replace("|", "\\|") if construct.example else ""
        default = "recomputed" if construct.code in RECOMPUTABLE else "refused"
        refused.append(f"| `{construct.code}` | {construct.title} | {construct.remedy} | {example} | {default} |")
    parts = [_HEAD + "\n".join(methods), _KEYS + "\n".join(kept), _REFUSED + "\n".join(refused), _TAIL]
    return "\n".join(parts)


if __name__ == "__main__":
    sys.stdout.write(markdown())
