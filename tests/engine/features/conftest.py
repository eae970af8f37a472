"""The pair of models, made once."""

from __future__ import annotations

import pytest
from tests.engine.cpu.random_pair import make_random_pair
from tests.engine.features.arms import Pair


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """Target and draft directories."""
    return make_random_pair(tmp_path_factory.mktemp("pair"))
