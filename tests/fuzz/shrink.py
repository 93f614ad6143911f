"""A failing case made small: the time before the failure, then the views, then the history, as long as it fails alike.

Views are tried many at a time, since cases of one history share a lake; histories one by one. Every step is to a case
of a smaller size, so it ends, and the time limit ends it earlier.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from tests.fuzz.case import Case
from tests.fuzz.histories import Contents
from tests.fuzz.trial import Failure

Run = Callable[[Sequence[Case]], "list[Failure | None]"]


@dataclass
class Shrinker:
    run: Run
    """The failures of cases that share their history."""
    accepts: Callable[[Case], bool]
    """Whether Spark takes the views."""
    seconds: float = 180.0
    batch: int = 4
    clock: Callable[[], float] = time.monotonic
    progress: Callable[[str], None] = lambda _: None
    tried: set[Case] = field(default_factory=set)

    def shrink(self, case: Case, failure: Failure, before: Sequence[Sequence[Contents]] = ()) -> tuple[Case, Failure]:
        """The smallest case found and how it fails; ``before`` is what the tables held before each round."""
        self.ends = self.clock() + self.seconds
        case = case.only(failure.view)
        case = replace(case, rounds=case.rounds[: failure.round])
        best = (case, failure)
        for shorter in self._shorter(case, before):
            if found := self._try([shorter], best):
                best = found
                break
        while True:
            size = best[0].size()
            best = self._views(best)
            best = self._histories(best)
            if best[0].size() == size or self.clock() > self.ends:
                return best

    def _shorter(self, case: Case, before: Sequence[Sequence[Contents]]) -> Iterator[Case]:
        """The last round over what the tables held then; only the tables that the views name."""
        last = len(case.rounds) - 1
        if 0 < last < len(before):
            later = replace(case, contents=tuple(before[last]), rounds=case.rounds[last:])
            yield later.only_used()
            yield later
        yield case.only_used()

    def _views(self, best: tuple[Case, Failure]) -> tuple[Case, Failure]:
        found: tuple[Case, Failure] | None = best
        while found is not None:
            best = found
            found = None
            candidates = self._new(sorted(best[0].smaller_views(), key=Case.size))
            while found is None and (some := list(islice(candidates, self.batch))):
                found = self._try(some, best)
        return best

    def _histories(self, best: tuple[Case, Failure]) -> tuple[Case, Failure]:
        found: tuple[Case, Failure] | None = best
        while found is not None:
            best = found
            found = next(
                (won for each in self._new(best[0].smaller_histories()) if (won := self._try([each], best))), None
            )
        return best

    def _new(self, cases: Iterable[Case]) -> Iterator[Case]:
        for case in cases:
            if self.clock() > self.ends:
                return
            if case not in self.tried and self.accepts(case):
                self.tried.add(case)
                yield case

    def _try(self, cases: Sequence[Case], best: tuple[Case, Failure]) -> tuple[Case, Failure] | None:
        """The smallest of the cases that fails like the best so far."""
        wanted = best[1].kind
        failing = [
            (case, each) for case, each in zip(cases, self.run(cases), strict=True) if each and each.kind == wanted
        ]
        if not failing:
            return None
        case, failure = min(failing, key=lambda pair: pair[0].size())
        self.progress(f"size {case.size()}: {case.views[-1].text()}")
        return case, failure
