"""docs/postgres.md from the code: ``python -m headwater.sources.postgres.page > docs/postgres.md``."""

from __future__ import annotations

import sys

from headwater.sources.postgres.privileges import owner_statements, role_statements
from headwater.sources.postgres.tables import TableName
from headwater.sources.postgres.type_map import TYPES

_HEAD = """# PostgreSQL as a source

PostgreSQL 14 and newer. Changes come from the server's own log by logical decoding (`pgoutput`); a transaction is one
unit of work, with its number, its place in the log and the time of its commit. Nothing is installed in the server, no
table is locked, no trigger runs in anybody's transaction.

## Setting it up

The server must log rows: `wal_level = logical` (a restart), and a free slot for each lake (`max_replication_slots`).

The role that reads owns nothing and writes nothing:

```sql
"""

_OWNER = """```

Set its password apart (`\\password headwater` in psql), so that no history keeps it. A table with row-level security
also needs `BYPASSRLS`: a policy that would hide rows from the copy makes it fail.

The owner of the tables says which are published, and that whole old rows are logged:

```sql
"""

_CHECKED = """```

REPLICA IDENTITY FULL is what tells the row that an update or delete took away, and what an update left of a long value.
It costs the server log: the old row of every update and delete. All of this is checked when a table is tracked and with
every batch that is read; what is missing is reported with the statement that mends it.

## Address, secrets, TLS

    postgresql://headwater@db.example:5432/shop?password_env=SHOP_PASSWORD

An address never holds a password (one that does is refused): `password_env` names an environment variable,
`password_file` a file; without either, libpq looks in `PGPASSWORD` and its password file. The password is read when a
connection is made, and is in no catalog, log, plan or error.

| option | meaning |
|---|---|
| `password_env`, `password_file` | where the password is |
| `sslmode` | as libpq has it; default `verify-full`, and `prefer` on the same machine |
| `sslrootcert`, `sslcert`, `sslkey`, `sslcrl` | files, as libpq has them |
| `connect_timeout`, `statement_timeout`, `lock_timeout`, `network_timeout` | seconds; 10, 600, 30, 30 |
| `host` | the folder of a Unix socket, where the URL has no host |

What may pass (a server that restarts, a statement that timed out, a slot in use) is tried again with growing pauses.
Nothing is lost meanwhile: the slot keeps the changes.

## The slot

A slot belongs to one lake. It moves only after the changes before it are durable in the lake, so a crash of either side
loses nothing and doubles nothing. As long as it stands, the server keeps its log: **drop it when the lake goes**
(`SELECT pg_drop_replication_slot('name')`), and set `max_slot_wal_keep_size` if a full disk of the server would be
worse than a lost slot.

These are noticed, reported as `SLOT_LOST`, and repaired by `resync`: a slot that was dropped, given up by the server,
made anew, or moved by somebody else; a server restored from a backup. The publication (`PUBLICATION_MISSING`) and each
table's part in it (`PUBLICATION_INCOMPLETE`) are watched too, also for a table that left it and came back.

A commit that the server has not flushed (`synchronous_commit = off`) is read when it is, some tenths of a second later.

## Types

Without loss, or not at all: a type that is not listed is refused when the table is tracked, a value that its Spark type
can't hold when it comes, with the names of table and column and never the value. A column's type can be *declared*:
`string` stands for any type, as PostgreSQL prints it, and `decimal(p,s)` for a numeric, each value checked.

| PostgreSQL | Spark | |
|---|---|---|
"""

_TAIL = """| an enum | `string` | its label; order is the text's |
| a domain | as what it is made of | |
| an array | `array<...>` of the element's type | one dimension from index 1, NULLs too; others are refused |
| composite types, ranges, `money`, `tsvector`, types of extensions | refused | declare `string` |

Two texts of `jsonb` or `interval` may differ where PostgreSQL holds the values to be equal (`1.0` and `1.00` in a JSON
number): Spark compares the texts.

## What is not followed

- Partitioned tables and tables that others inherit from: track the tables below them. Views, foreign, unlogged and
  temporary tables.
- Generated columns: the log does not carry them, so the table is tracked without them.
- What ALTER TABLE does to stored rows (`ALTER COLUMN ... TYPE ... USING`) is in no log. A tracked column that is
  dropped, renamed or given another type is noticed at the next change of the table; after a rewrite that keeps name and
  type, resync.
"""

_EXAMPLE = (TableName("public", "orders"), TableName("sales", "items"))


def markdown() -> str:
    role = "".join(f"{statement};\n" for statement in role_statements("headwater", "shop", _EXAMPLE))
    owner = "".join(f"{statement};\n" for statement in owner_statements("headwater", _EXAMPLE))
    types = "".join(
        f"| {', '.join(f'`{name}`' for name in row.names)} "
        f"| {f'`{row.spark_type}`' if row.spark_type else '`decimal(p,s)`'} | {row.note} |\n"
        for row in TYPES
    )
    return f"{_HEAD}{role}{_OWNER}{owner}{_CHECKED}{types}{_TAIL}"


if __name__ == "__main__":
    sys.stdout.write(markdown())
