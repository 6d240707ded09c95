"""What `make mutants` knows of the source: its lists may not outlive what they name."""

from __future__ import annotations

from pathlib import Path

import pytest

from mutants import EQUIVALENT, TESTED_BY, equivalent_places, path_of

TESTS = Path(__file__).parent


@pytest.mark.parametrize("module", sorted({module for module, _, _ in EQUIVALENT}))
def test_changes_that_change_nothing_are_in_the_source(module: str) -> None:
    assert module in TESTED_BY
    assert len(equivalent_places(module)) == sum(key[0] == module for key in EQUIVALENT)


def test_the_tests_of_each_module_exist() -> None:
    for module, tests in TESTED_BY.items():
        assert path_of(module).is_file()
        assert all((TESTS / f"{name}.py").is_file() for name in tests.split())
