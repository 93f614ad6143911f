"""One campaign for the run, whose summary stands at the end of pytest's: what was refused counts by its code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.fuzz.campaign import Campaign

_CAMPAIGN: pytest.StashKey[Campaign] = pytest.StashKey()


@pytest.fixture(scope="session")
def campaign(spark: Any, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Campaign:
    from tests.fuzz.campaign import Campaign, Settings

    made = Campaign(spark, tmp_path_factory.mktemp("fuzz"), Settings(views=6, rounds=2))
    request.config.stash[_CAMPAIGN] = made
    return made


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    made = config.stash.get(_CAMPAIGN, None)
    if made is not None:
        terminalreporter.section("random views")
        terminalreporter.write_line(str(made.summary))
