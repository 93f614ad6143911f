"""[He05 §5] on Spark and Delta: Figures 4 to 7."""

from headwater.bench.he.measure import run

__all__ = ["run"]
