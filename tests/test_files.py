"""What lies in the lake, listed and measured."""

from __future__ import annotations

from pathlib import Path

import deltalake
import pyarrow

from headwater.engine.files import bytes_added


def test_the_bytes_that_a_commit_added_are_those_of_its_files(tmp_path: Path) -> None:
    place = tmp_path / "table"
    seen: set[Path] = set()
    for version, rows in enumerate((10, 1000)):
        deltalake.write_deltalake(str(place), pyarrow.table({"k": list(range(rows))}), mode="append")
        new = set(place.glob("*.parquet")) - seen
        assert bytes_added(str(place), version) == sum(each.stat().st_size for each in new)
        seen |= new
    assert bytes_added(str(place), 2) is None
    assert bytes_added("nowhere://x", 0) is None
