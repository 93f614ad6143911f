"""Random views over random histories, each refresh against Spark's own answer.

``make test`` runs one lake, ``make test-all`` eight, ``make soak`` HEADWATER_FUZZ_LAKES (40) from HEADWATER_FUZZ_SEED
(1000) on, and ``make fuzz`` goes on for as long as one likes. A failure is shrunk and told as a script.
"""

from __future__ import annotations

import os

import pytest

from tests.fuzz.campaign import Campaign

FIRST = int(os.environ.get("HEADWATER_FUZZ_SEED", "1000"))
LAKES = int(os.environ.get("HEADWATER_FUZZ_LAKES", "40"))
QUICK = (2,)
MORE = (1, *range(3, 9))


@pytest.mark.parametrize("seed", [*QUICK, *(pytest.param(seed, marks=pytest.mark.heavy) for seed in MORE)])
def test_random_views(seed: int, campaign: Campaign) -> None:
    told = campaign.run(seed)
    assert not told, "\n".join(told)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(FIRST, FIRST + LAKES))
def test_many_random_views(seed: int, campaign: Campaign) -> None:
    told = campaign.run(seed)
    assert not told, "\n".join(told)
