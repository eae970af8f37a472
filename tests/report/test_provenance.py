"""Only what is on the allow-list is shown; secrets never are."""

import pytest

from specswitch.report.provenance import HIDDEN, command_line, environment, visible


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
