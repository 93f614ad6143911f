"""What the project promises of itself: its public names, its error codes, its generated pages."""

from __future__ import annotations

import re
from pathlib import Path

import headwater
from headwater import errors
from headwater.sql.constructs import BY_CODE, KEPT, REFUSED
from headwater.sql.page import markdown

ROOT = Path(__file__).parent.parent


def test_public_names_are_just_these():
    assert sorted(headwater.__all__) == [
        "ConstraintStatus",
        "HeadwaterError",
        "Lake",
        "LakeStatus",
        "RefreshReport",
        "RefreshRound",
        "TableStatus",
        "UnitOfWork",
        "Verification",
        "ViewStatus",
        "__version__",
        "connect",
    ]
    assert all(hasattr(headwater, name) for name in headwater.__all__)


def test_every_error_has_one_base_and_a_code_of_its_own():
    found = errors.by_code()
    assert len(found) > 20
    for code, kind in found.items():
        assert issubclass(kind, headwater.HeadwaterError)
        assert re.fullmatch(r"[A-Z_]+", code)
    assert len({kind.code for kind in found.values()}) == len(found)


def test_the_tree_in_the_docstring_names_every_error():
    drawn = errors.__doc__ or ""
    for code, kind in errors.by_code().items():
        assert kind.__name__ in drawn
        if kind not in (headwater.HeadwaterError, errors.UnsupportedSql):
            assert code in drawn


def test_an_error_tells_what_happened_and_what_to_do():
    error = errors.UnknownName("There is no view 'x'.", remedy="Choose among a, b.", name="x")
    assert str(error) == "[UNKNOWN_NAME] There is no view 'x'. Choose among a, b."
    assert error.as_dict() == {
        "code": "UNKNOWN_NAME",
        "message": "There is no view 'x'.",
        "remedy": "Choose among a, b.",
        "name": "x",
    }


def test_reason_codes_are_unique_and_each_has_a_remedy():
    assert len(BY_CODE) == len(REFUSED)
    assert all(construct.remedy and construct.title for construct in REFUSED)


def test_every_construct_that_is_kept_has_its_tests_and_every_view_of_them_its_construct():
    from tests.spark.constructs import VIEWS

    named = [name for kept in KEPT for name in kept.tests]
    assert len(named) == len(set(named))
    assert set(named) == set(VIEWS)


def test_the_page_on_sql_is_made_from_the_table_of_constructs():
    assert (ROOT / "docs" / "sql.md").read_text() == markdown()


def test_no_address_of_a_package_registry_and_no_lock_file():
    for path in [ROOT / "constraints.txt", ROOT / "pyproject.toml", ROOT / "Makefile", *(ROOT / "tools").iterdir()]:
        assert "://" not in re.sub(r"https://www\.apache\.org\S*", "", path.read_text()), path
