"""Keys and foreign keys in what Spark says of a table."""

from __future__ import annotations

from headwater.sql.declared import DeclaredKey, DeclaredReference, declared_constraints

DESCRIBED = [
    ("l_orderkey", "bigint"),
    ("PRIMARY", "PRIMARY KEY (not_a_constraint)"),
    ("", ""),
    ("# Detailed Table Information", ""),
    ("Name", "spark_catalog.default.lineitem"),
    ("", ""),
    ("# Constraints", ""),
    ("pk", "PRIMARY KEY (l_orderkey, `l line`) NOT ENFORCED NORELY"),
    ("once", "UNIQUE (l_note) NOT ENFORCED"),
    ("has_order", "FOREIGN KEY (l_orderkey) REFERENCES spark_catalog.default.orders (o_orderkey) NOT ENFORCED RELY"),
    ("positive", "CHECK (l_quantity > 0) ENFORCED"),
    ("", ""),
    ("# Metadata Columns", ""),
    ("_metadata", "struct<file_path:string>"),
]


def test_keys_and_foreign_keys_are_read_and_checks_passed_over() -> None:
    assert declared_constraints(DESCRIBED) == (
        [DeclaredKey("pk", ("l_orderkey", "l line"), True), DeclaredKey("once", ("l_note",), False)],
        [DeclaredReference("has_order", ("l_orderkey",), "spark_catalog.default.orders", ("o_orderkey",))],
    )


def test_a_table_without_constraints_declares_none() -> None:
    assert declared_constraints(DESCRIBED[:6]) == ([], [])
