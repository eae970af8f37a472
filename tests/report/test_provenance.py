"""Only what is on the allow-list is shown; secrets never are."""

from types import SimpleNamespace

import pytest

from specswitch.report.provenance import HIDDEN, command_line, environment, rules_measured, visible


def test_variables_are_shown_by_name_and_secrets_never():
    shown = environment(
        {
            "SGLANG_ENABLE_SPEC_V2": "1",
            "OMP_NUM_THREADS": "2",
            "HF_TOKEN": "hf_x",
            "SGLANG_API_KEY": "sk",
            "HOME": "/home/x",
            "PATH": "/bin",
        }
    )
    assert shown == {"OMP_NUM_THREADS": "2", "SGLANG_ENABLE_SPEC_V2": "1"}


def test_parameters_that_sound_secret_are_left_out():
    assert visible({"output_tokens": 64, "api_key": "x", "hf_token": "y"}) == {"output_tokens": 64}


@pytest.mark.parametrize(
    "argv", [["--api-key", "sk-1"], ["--api-key=sk-1"], ["--admin-api-key", "sk-1", "--tp", "1"]]
)
def test_secret_flag_values_are_hidden(argv):
    line = command_line(argv)
    assert "sk-1" not in line
    assert HIDDEN in line


def test_harmless_flags_keep_their_values():
    argv = ["--max-total-tokens", "4096", "--speculative-num-draft-tokens=4", "--tokenizer-path", "tiny"]
    assert command_line(argv) == " ".join(argv)


def test_paths_in_a_command_line_are_cut():
    assert command_line(["--model-path", "/srv/models/tiny"]) == "--model-path …/tiny"


def points(*arms):
    return [
        {"label": label, "path": label.split("-")[1], "threshold": t} for label, t in arms for _ in range(2)
    ]


def test_a_server_with_a_rule_lists_the_thresholds_that_were_measured_on_it():
    arms = [
        ("dynamic-v2-t16", 16),
        ("dynamic-v2-t4", 4),
        ("off-v2", 0),
        ("dynamic-v1-t8", 8),
        ("always-v2", None),
    ]
    run = SimpleNamespace(manifest={"points": points(*arms)})
    argv = ["--speculative-algorithm", "EAGLE3", "--speculative-disable-batch-threshold", "1"]
    text = rules_measured(run, {"argv": argv, "identity": {"path": "v2"}})
    assert text.startswith("set before each point")
    assert text.endswith(
        "measured: off-v2 (threshold 0), dynamic-v2-t4 (threshold 4), dynamic-v2-t16 (threshold 16)"
    )
    assert rules_measured(run, {"argv": argv[:2], "identity": {"path": "v2"}}) == ""
