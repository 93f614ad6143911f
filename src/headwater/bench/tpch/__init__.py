"""TPC-H as a workload for views: its tables, its 22 queries, its refresh functions, a judge, and the benchmark."""

from headwater.bench.tpch.measure import run

__all__ = ["run"]
