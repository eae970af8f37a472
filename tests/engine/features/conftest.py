"""The pair of models, made once; every test here needs the engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.cpu.random_pair import make_random_pair
from engine.features.arms import Pair


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark this folder's tests as `engine`."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.engine)


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """Target and draft directories."""
    return make_random_pair(tmp_path_factory.mktemp("pair"))
