"""Options on the wrong side of the double dash: the answer is the whole line as it should be."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from specswitch.cli import main


def said(*words: str) -> str:
    answer = CliRunner().invoke(main, list(words))
    assert answer.exit_code == 2, answer.output
    return answer.output


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["serve", "--threshold", "8", "--model-path", "M"], "serve --threshold 8 -- --model-path M"),
        (["serve", "--model-path", "M", "--threshold=8"], "serve --threshold=8 -- --model-path M"),
        (
            ["serve", "--check", "--model-path", "a b", "--dwell", "2", "--tp", "2"],
            "serve --check --dwell 2 -- --model-path 'a b' --tp 2",
        ),
        (["serve", "--threshold", "8", "--port", "1", "--", "--dtype", "x"], "serve --threshold 8 -- --port 1 --dtype x"),
        (["doctor", "--json", "--device", "cpu"], "doctor --json -- --device cpu"),
    ],
)  # fmt: skip
def test_the_engines_options_before_the_double_dash(words: list[str], line: str) -> None:
    output = said(*words)
    assert "is one of SGLang's: put -- before the engine's own options:" in output
    assert f"\n  specswitch {line}\n" in output


def test_our_option_behind_the_double_dash() -> None:
    output = said("serve", "--", "--model-path", "M", "--threshold", "8", "--dwell=2")
    assert "--threshold is one of ours: put it before the --:" in output
    assert "\n  specswitch serve --threshold 8 --dwell=2 -- --model-path M\n" in output


def test_a_misspelt_option_of_ours_is_not_called_the_engines() -> None:
    output = said("serve", "--treshold", "8", "--", "--model-path", "M")
    assert "'--threshold'" in output
    assert "SGLang" not in output
