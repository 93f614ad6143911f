"""Genesis, the generator of update streams [Mauve98 §4]: a ``Workload`` is a value, everything else follows from it.

The same workload gives the same rows and the same timed transactions on every machine and every version of Python:
all randomness comes from ``random.Random.random``, whose sequence for a given seed is the one thing that the standard
library promises to keep. Nothing here knows of Spark or of a clock.
"""

from headwater.genesis.arrivals import Discontinuous, Steady, Stream, UpdateRate
from headwater.genesis.distributions import Distribution, Normal, SelfSimilar, Uniform, Zipf
from headwater.genesis.model import Tables
from headwater.genesis.stream import TableChange, Transaction, initial_rows, transactions
from headwater.genesis.workload import Column, Mix, TableShape, Workload

__all__ = [
    "Column",
    "Discontinuous",
    "Distribution",
    "Mix",
    "Normal",
    "SelfSimilar",
    "Steady",
    "Stream",
    "TableChange",
    "TableShape",
    "Tables",
    "Transaction",
    "Uniform",
    "UpdateRate",
    "Workload",
    "Zipf",
    "initial_rows",
    "transactions",
]
