"""The code-path notebook's parameters: what they leave open is the bundled pair, and nothing is guessed."""

from __future__ import annotations

from pathlib import Path

import pytest

from specswitch.models import pair
from specswitch.serving.errors import FlagError
from specswitch.serving.flags import parse_flags
from specswitch.sweep.code_path import CodePathParameters
from specswitch.sweep.parameters import ParameterError


def test_what_the_flags_leave_open_is_the_bundled_pair_on_the_cpu() -> None:
    flags = parse_flags(CodePathParameters().argv())
    assert flags.model_path == str(pair.target_dir())
    assert flags.speculative_draft_model_path == str(pair.draft_dir())
    assert (flags.device, flags.speculative_disable_batch_threshold) == ("cpu", 4)


def test_what_the_flags_say_is_kept() -> None:
    given = ["--model-path", "m", "--max-running-requests", "9", "--page-size", "16", "--device", "cuda"]
    argv = CodePathParameters(flags=given, threshold=None).argv()
    assert argv == given


def test_a_plain_server_gets_no_draft() -> None:
    assert (
        parse_flags(CodePathParameters(flags=[], threshold=None).argv()).speculative_draft_model_path is None
    )


@pytest.mark.parametrize(("given", "path"), [(None, "v2"), ("0", "v1"), (0, "v1"), ("true", "v2")])
def test_the_variable_decides_whatever_the_shell_has(
    given: str | int | None, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Field case A22."""
    monkeypatch.setenv("SGLANG_ENABLE_SPEC_V2", "0" if path == "v2" else "1")
    assert CodePathParameters(spec_v2_env=given).look().decision.path == path


def test_names_and_values_are_checked_as_in_the_other_notebooks(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"treshold.*known are flags"):
        CodePathParameters.of_namespace({"treshold": 4, "Path": Path, "_hidden": 1})
    with pytest.raises(ParameterError, match="threshold = -1"):
        CodePathParameters.of_namespace({"threshold": -1})
    with pytest.raises(FlagError, match="no-such-flag"):
        CodePathParameters(flags=["--no-such-flag"]).argv()
    with pytest.raises(ParameterError, match="set threshold = None"):
        CodePathParameters(flags=["--speculative-disable-batch-threshold", "8"]).argv()


def test_nothing_is_started_unless_asked_for() -> None:
    asked = CodePathParameters(live=False, replay=False)
    assert asked.prove(asked.look()) == "live = False: no server was started."
    assert asked.replay_mistake() == []


def test_flags_that_cannot_run_are_explained_instead_of_started() -> None:
    asked = CodePathParameters(flags=["--speculative-algorithm", "EAGLE3"])
    said = asked.prove(asked.look())
    assert isinstance(said, str)
    assert "top-k 4 is filled in after v2 was chosen" in said
