"""Parameters: strict about names and types, paths independent of the caller, contradictions named."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest

from specswitch.config import project_root
from specswitch.sweep.given import read_given
from specswitch.sweep.parameters import ParameterError, SweepParameters

GIVEN = [
    (("repeats", "2"), 2),
    (("resume", "false"), False),
    (("resume", "True"), True),
    (("window_s", "2"), 2.0),
    (("window_s", "1e-1"), 0.1),
    (("concurrencies", "1,2,4"), [1, 2, 4]),
    (("concurrencies", "[1, 2]"), [1, 2]),
    (("arms", "none,dynamic-v2-t8"), ["none", "dynamic-v2-t8"]),
    (("env", ""), []),
    (("out_dir", "007"), "007"),
    (("max_total_tokens", "none"), None),
    (("mem_fraction_static", "0.5"), 0.5),
]


@pytest.mark.parametrize(("pair", "value"), GIVEN, ids=str)
def test_a_shell_value_is_read_as_its_parameter_asks(pair: tuple[str, str], value: object) -> None:
    read = getattr(read_given(SweepParameters, [pair]), pair[0])
    assert read == value
    assert type(read) is type(value)


REFUSED = [
    (("treshold", "4"), "unknown parameter 'treshold'"),
    (("repeat", "4"), "did you mean 'repeats'"),
    (("resume", "yes"), "resume = 'yes'"),
    (("resume", "0"), "resume = '0'"),
    (("repeats", "2.0"), "repeats = '2.0'"),
    (("repeats", "0"), "repeats = 0"),
    (("repeats", "-1"), "repeats = -1"),
    (("repeats", ""), "repeats = ''"),
    (("window_s", "nan"), "window_s = nan"),
    (("window_s", "inf"), "window_s = inf"),
    (("window_s", "0"), "window_s = 0"),
    (("warmup_s", "-0.5"), "warmup_s = -0.5"),
    (("concurrencies", "1,0"), r"concurrencies\.1 = 0"),
    (("concurrencies", "1,two"), r"concurrencies\.1 = 'two'"),
    (("concurrencies", "[1"), "concurrencies"),
    (("device", "gpu"), "device = 'gpu'"),
    (("port", "80000"), "port = 80000"),
    (("model", "True"), "model was given without draft"),
    (("topk", "2"), "topk"),
    (("num_draft_tokens", "8"), "num_draft_tokens=4, got 8"),
    (("concurrencies", "128"), "raise max_running_requests"),
    (("concurrencies", "2,2"), "the same concurrency twice"),
    (("arms", "none,none"), "the same arm twice"),
    (("arms", "none,allways-v2"), "arm 'allways-v2'"),
    (("arms", ""), "arms"),
    (("env", "SGLANG_X"), "write NAME=value"),
]


@pytest.mark.parametrize(("pair", "says"), REFUSED, ids=str)
def test_a_bad_value_is_refused_with_name_and_value(pair: tuple[str, str], says: str) -> None:
    with pytest.raises(ParameterError, match=says):
        read_given(SweepParameters, [pair]).plan()


@pytest.mark.parametrize(
    ("pair", "words"),
    [
        (("concurrencies", "[1"), "parameter concurrencies = '[1': give a list, as [1, 2] or 1,2"),
        (("concurrencies", "1,0"), "parameter concurrencies.1 = 0: give 1 or more"),
        (("concurrencies", "1,two"), "parameter concurrencies.1 = 'two': give a whole number"),
        (("repeats", "2.5"), "parameter repeats = '2.5': give a whole number"),
        (("window_s", "0"), "parameter window_s = 0: give more than 0"),
        (("resume", "yes"), "parameter resume = 'yes': give true or false"),
        (("device", "gpu"), "parameter device = 'gpu': choose 'cpu' or 'cuda'"),
        (("window_s", "inf"), "parameter window_s = inf: give a finite number"),
        (("port", "80000"), "parameter port = 80000: give 65535 or less"),
        (("mem_fraction_static", "1"), "parameter mem_fraction_static = 1: give less than 1"),
    ],
    ids=str,
)
def test_the_reason_is_told_in_plain_words(pair: tuple[str, str], words: str) -> None:
    with pytest.raises(ParameterError) as refused:
        read_given(SweepParameters, [pair])
    assert str(refused.value) == words


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{resume: 'false'}", "resume = 'false'"),
        ("{repeats: .nan}", "repeats = nan"),
        ("{repeats: true}", "repeats = True"),
        ("{treshold: 4}", "unknown parameter 'treshold'"),
        ("{unclosed", "not YAML"),
        ("[1, 2]", "no mapping"),
        ("", "no mapping"),
    ],
)
def test_bad_yaml_is_refused(text: str, says: str) -> None:
    with pytest.raises(ParameterError, match=says):
        read_given(SweepParameters, [], [text])


def test_yaml_keeps_its_types() -> None:
    read = read_given(SweepParameters, [], ["{repeats: 2, resume: false, arms: [none], window_s: 1}"])
    assert (read.repeats, read.resume, read.arms, read.window_s) == (2, False, ["none"], 1.0)


def test_a_name_given_twice_is_refused() -> None:
    with pytest.raises(ParameterError, match="'repeats' is given twice"):
        read_given(SweepParameters, [("repeats", "2")], ["{repeats: 3}"])


def test_a_notebook_namespace_is_checked_like_a_shell() -> None:
    """Field case C2: also under plain papermill, a misspelt name does not run the defaults."""
    clean = {"In": [""], "Out": {}, "_i1": "x", "repeats": 2, "math": math, "get_ipython": len}
    assert SweepParameters.of_namespace(clean).changed() == {"repeats": 2}
    with pytest.raises(ParameterError, match="'treshold'"):
        SweepParameters.of_namespace({**clean, "treshold": 4})
    with pytest.raises(ParameterError, match="resume = 'true'"):
        SweepParameters.of_namespace({**clean, "resume": "true"})


def test_relative_paths_count_from_the_checkout(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Field case C10."""
    monkeypatch.chdir(tmp_path)
    asked = SweepParameters(out_dir="reports/x", model="m", draft="d", dataset="file:p.jsonl")
    assert asked.run_dir() == project_root() / "reports" / "x"
    plan = asked.plan()
    assert plan.model == str(project_root() / "m")
    assert plan.workload.dataset == f"file:{project_root() / 'p.jsonl'}"
    assert SweepParameters(out_dir=str(tmp_path)).run_dir() == tmp_path


def test_without_a_folder_every_run_gets_a_new_one_below_reports() -> None:
    assert SweepParameters().run_dir().parent == project_root() / "reports"


def test_v2_with_topk_2_fails_before_anything_starts() -> None:
    """Field case A22."""
    asked = SweepParameters(arms=["always-v1", "always-v2"], topk=2, num_draft_tokens=6)
    with pytest.raises(ParameterError, match="path='v2' with topk=2"):
        asked.plan()
    assert SweepParameters(arms=["always-v1"], topk=2, num_draft_tokens=6).plan().server.topk == 2


def test_the_longest_accept_length_is_a_verify_steps_own() -> None:
    assert (
        SweepParameters.of({"simulated_accept_length": 4.0}).plan().server.env["SGLANG_SIMULATE_ACC_LEN"]
        == "4"
    )
    with pytest.raises(ParameterError, match=r"=4\.5 with num_steps=3: .* at most 4 tokens; give 4 or less"):
        SweepParameters.of({"simulated_accept_length": 4.5}).plan()


def test_every_core_of_the_machine_may_be_used() -> None:
    cores = os.cpu_count() or 1
    assert SweepParameters.of({"cpu_threads": cores}).plan().server.env["OMP_NUM_THREADS"] == str(cores)
    with pytest.raises(ParameterError, match=f"this machine has {cores} cores, give {cores} or less"):
        SweepParameters.of({"cpu_threads": cores + 1}).plan()
