"""What other engines are told to run."""

from __future__ import annotations

from headwater.sql.other_engines import datafusion_sql, duckdb_sql


def test_a_table_is_read_as_it_is() -> None:
    assert duckdb_sql("/a b's", 3, None, counted=False) == "SELECT * FROM delta_scan('/a b''s', version=3)"
    assert datafusion_sql("r", ["k"], counted=False) == 'SELECT "k" FROM "r"'


def test_a_view_is_a_bag_of_its_public_columns() -> None:
    assert duckdb_sql("/v", 7, ["k", 'odd "one"'], counted=True) == (
        'SELECT "k", "odd ""one""" FROM (SELECT "k", "odd ""one""", unnest(range("__hw_count")) AS "__hw_copy" '
        "FROM delta_scan('/v', version=7)) AS q"
    )


def test_a_timeline_is_read_at_its_moment() -> None:
    where = "`__hw_t_min` <= 4 AND (`__hw_t_max` > 4 OR `__hw_t_max` IS NULL)"
    assert datafusion_sql("v", ["k"], counted=True, where=where) == (
        'SELECT "k" FROM (SELECT "k", unnest(range(0, "__hw_count")) AS "__hw_copy" FROM "v" '
        'WHERE "__hw_t_min" <= 4 AND ("__hw_t_max" > 4 OR "__hw_t_max" IS NULL)) AS q'
    )
