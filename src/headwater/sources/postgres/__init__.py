"""A PostgreSQL database as a source: its transactions as units of work, its tables as they were seen.

positions     places in the log, transaction numbers
pgoutput      the log's messages: bytes to values
type_map      PostgreSQL's types as Spark's, in one table
tables        what is known of a table
changes       from messages to transactions and the rows they changed
spool         where the messages of a batch wait
visibility    which transactions a query saw, its execution time, what interferes and what is missing
arrow         rows as Arrow
connection    address, secrets, TLS, time limits, retries, errors
description   tables as PostgreSQL's catalog tells them
publication   which tables' changes the log is read for
slot          the log from where we left it, exactly once
initial_copy  the first copy, and where the log takes over
privileges    the statements that let Headwater in
page          docs/postgres.md

The first seven take values and return values. Nothing here knows of Spark.
"""
