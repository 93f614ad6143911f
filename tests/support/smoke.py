"""The statements of Spark and Delta that Headwater stands on, in one small pass over any session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headwater.engine.session import require_delta
from tests.support.bags import assert_bag_equal


def delta_round_trip(spark: Any, folder: Path) -> None:
    require_delta(spark)
    path = f"{folder}/smoke"
    table = f"delta.`{path}`"
    feed = "delta.enableChangeDataFeed"
    spark.sql(f"CREATE TABLE {table} (a INT, b STRING) USING delta TBLPROPERTIES ('{feed}' = 'true')")
    spark.sql(f"INSERT INTO {table} VALUES (1, 'x'), (2, NULL)")
    spark.sql(
        f"MERGE INTO {table} t USING (SELECT 2 AS a UNION ALL SELECT 9) s ON t.a = s.a "
        "WHEN MATCHED THEN UPDATE SET b = 'y' WHEN NOT MATCHED THEN INSERT (a, b) VALUES (s.a, 'z')"
    )
    assert_bag_equal(
        spark.sql(f"SELECT a, b, _change_type, _commit_version FROM table_changes_by_path('{path}', 1, 2)"),
        spark.sql(
            "SELECT * FROM VALUES (1, 'x', 'insert', 1L), (2, NULL, 'insert', 1L), (2, NULL, 'update_preimage', 2L), "
            "(2, 'y', 'update_postimage', 2L), (9, 'z', 'insert', 2L) AS v(a, b, _change_type, _commit_version)"
        ),
        label="change feed",
    )
    assert_bag_equal(
        spark.sql(f"SELECT * FROM {table} VERSION AS OF 1"),
        spark.sql("SELECT * FROM VALUES (1, 'x'), (2, NULL) AS v(a, b)"),
        label="time travel",
    )
