"""The durable points: the moments between which a crash may come.

Each driver tells when it has passed one. In production nobody listens; the crash tests kill the process at every
point in turn and run it again. The list is complete: a durable write of a driver that is not followed by one of
these points is a bug.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TypeAlias


class DurablePoint(Enum):
    CAPTURE_LOOKED = "capture: commits were seen, none is numbered"
    CAPTURE_NUMBERED = "capture: units of work are numbered"
    ROUND_INTENDED = "capture: a round of mirrored changes is recorded, none is written"
    ROUND_LOGGED = "capture: the changes are in the logs, the tables are as before"
    ROUND_SETTLED = "capture: logs and tables are written, nothing is numbered"
    ROUND_NUMBERED = "capture: the round is numbered, its sources still keep what it read"
    ROUND_GIVEN_UP = "capture: what a round left behind is removed"
    PROPAGATE_INTENDED = "propagate: the step is recorded as intended"
    PROPAGATE_APPENDED = "propagate: the view delta is appended, the frontier has not moved"
    PROPAGATE_ADVANCED = "propagate: the frontier has moved"
    ROLLING_INTENDED = "rolling: the iteration is recorded as intended"
    ROLLING_APPENDED = "rolling: the answer of a query is appended, its execution time is not recorded"
    ROLLING_RECORDED = "rolling: the execution time of a query is recorded"
    ROLLING_ADVANCED = "rolling: the iteration is done"
    APPLY_INTENDED = "apply: the step is recorded as intended"
    APPLY_COMMITTED = "apply: the view's table has its commit, the catalog does not know"
    APPLY_RECORDED = "apply: the catalog knows"
    CREATE_INTENDED = "create: the new view's place is recorded"
    CREATE_STORED = "create: the view's tables are written, the view has no name yet"
    CREATE_RECORDED = "create: the view has its name"
    DROP_FORGOTTEN = "drop: the view has no name any more, its tables are still there"
    DROP_REMOVED = "drop: the tables are gone"
    RELEASE_REFRESHED = "release: a view stands at the csn, nothing is published"
    RELEASE_PUBLISHED = "release: it is published"
    COLLECT_INTENDED = "collect: the plan is recorded, nothing is taken"
    COLLECT_SWEPT = "collect: what a view can spare is taken, the plan is still open"
    COLLECT_RECORDED = "collect: the plan is closed"


Listener: TypeAlias = Callable[[DurablePoint], None]


def nobody(_: DurablePoint) -> None:
    """The listener in production."""
