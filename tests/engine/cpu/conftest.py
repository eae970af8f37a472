"""One random model pair for all engine tests of a session."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import settings

from engine.cpu.random_pair import make_random_pair

settings.register_profile("shared machine", deadline=None)
settings.load_profile("shared machine")
torch.set_num_threads(1)  # the tensors are small, and others compute on the same cores


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Directories of a random target and a random draft."""
    return make_random_pair(tmp_path_factory.mktemp("pair"))
