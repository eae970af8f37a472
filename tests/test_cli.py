"""Bad input on every command: exit code 2, the value named, and no words but ours. Nothing is started."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from click.testing import CliRunner

from specswitch.cli import main
from specswitch.models import pair
from specswitch.sweep.crossing_parameters import CrossingParameters
from specswitch.sweep.parameters import ParameterError, RunParameters, SweepParameters

MODEL = ["--model-path", str(pair.target_dir()), "--device", "cpu"]
DRAFT = ["--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", str(pair.draft_dir())]
FOREIGN = (
    "Traceback",
    "Value error",
    "Input should",
    "validation error",
    "pydantic",
    "For further information",
    "[Errno",
)

# {file}: an ordinary file; {latin}: a file that is no UTF-8 text; {full}: a folder with something in it; {new}: none.
BAD = [
    ("serve --threshold eight --", "'eight': give a whole number of 0 or more"),
    ("serve --threshold 8 --enable-threshold 20 --", "enable_threshold=20 is larger than threshold=8: give an"),
    ("serve --threshold 8 --dwell 0 --", "'0': give a whole number of 1 or more"),
    ("serve --ready-timeout nan --", "'nan': give a number of 1 or more"),
    ("serve --threshold 8 --sync never --", "'never' is not one of 'lazy', 'eager', 'stale'"),
    ("serve --threshold 8 -- --port abc", "argument --port: invalid int value: 'abc'"),
    ("serve --threshold 8 --", "--model-path is missing"),
    ("doctor -- --model-path", "--model-path"),
    ("doctor -- --tp-size two", "'two'"),
    ("doctor -- --attention-backend fa9", "argument --attention-backend: invalid choice: 'fa9' (choose from 'triton'"),
    ("set 127.0.0.1:1 threshold=--3", "threshold='--3': give a whole number >= 0, or none"),
    ("set 127.0.0.1:1 dwell=none", "dwell=None: give a whole number of steps >= 1"),
    ("set 127.0.0.1:1 ranges=[[1,0]]", "ranges=[[1, 0]]: give ascending pairs"),
    ("state notaurl", "URL 'notaurl': write HOST:PORT or http://HOST:PORT"),
    ("state http://[bad", "URL 'http://[bad': write HOST:PORT"),
    ("sweep --dry-run -p concurrencies 0,4", "concurrencies.0 = 0: give 1 or more"),
    ("sweep --dry-run -p concurrencies a,4", "concurrencies.0 = 'a': give a whole number"),
    ("sweep --dry-run -p concurrencies [1,", "concurrencies = '[1,': give a list, as [1, 2] or 1,2"),
    ("sweep --dry-run -p concurrencies []", "concurrencies = []: give at least 1"),
    ("sweep --dry-run -p arms []", "arms = []: give at least 1"),
    ("sweep --dry-run -p concurrencies 4,4", "the same concurrency twice: [4, 4]"),
    ("sweep --dry-run -p concurrencies 65", "concurrency [65] exceeds max_running_requests=64"),
    ("sweep --dry-run -p arms none,none", "the same arm twice"),
    ("sweep --dry-run -p arms dynamic-v2-t4-e9", "enable_threshold=9 is larger than threshold=4: give an"),
    ("sweep --dry-run -p arms fast", "arm 'fast': write none"),
    ("sweep --dry-run -p repeats 1.5", "repeats = '1.5': give a whole number"),
    ("sweep --dry-run -p env NAME", "env 'NAME': write NAME=value"),
    ("sweep --dry-run -p topk 2 -p arms always-v2", "topk=2"),
    ("sweep --out {new} -p attention_backend fa9", "--attention-backend: invalid choice: 'fa9' (choose from 'triton'"),
    ("crossing --out {new} -p attention_backend fa9", "invalid choice: 'fa9' (choose from 'triton'"),
    ("calibrate --out {new} -p attention_backend fa9", "invalid choice: 'fa9' (choose from 'triton'"),
    ("soak --out {new} -p attention_backend fa9", "invalid choice: 'fa9' (choose from 'triton'"),
    ("sweep --dry-run -p num_steps 1000000", "parameter num_steps = 1000000: give 100 or less"),
    ("sweep --dry-run -p simulated_accept_length 9", "simulated_accept_length=9 with num_steps=3: a verify step accepts"),
    ("sweep --dry-run -p output_tokens 1", "output_tokens=1: the prompt's own step brings the first token"),
    ("sweep --dry-run -p cpu_threads 1000000", "cpu_threads=1000000: this machine has"),
    ("sweep --dry-run -p max_total_tokens 1000000000000", "max_total_tokens=1000000000000: K and V of so many"),
    ("crossing --dry-run -p load constant:rate=1e12,duration=12", "12 s are 1.2e+13 requests, more than 1,000,000: give"),
    ("crossing --dry-run -p load poisson:rate=1e12,duration=12", "1e+12 requests per second for 12 s are 1.2e+13"),
    ("crossing --dry-run -p load burst:low=1,high=1e12,period=2,duration=12", "1e+12 requests per second for 12 s"),
    ("sweep --dry-run -y a:b", "YAML 'a:b' is no mapping"),
    ("sweep --dry-run -f {latin}", "{latin}"),
    ("sweep --dry-run -p dataset file:{latin}", "{latin}' cannot be read: it is no UTF-8 text"),
    ("sweep --dry-run -f {full}", "{full}' cannot be read"),
    ("sweep --dry-run --out {file}", "{file}: Not a directory"),
    ("crossing --dry-run -p load square:low=2", "high: missing"),
    ("crossing --dry-run -p load square:low=5,high=2,period=4,duration=12", "low=5 is not below high=2"),
    ("crossing --dry-run -p load step:before=2,after=99,at=1,duration=2", "max_running_requests=64"),
    ("crossing --dry-run -p load trace:file={latin}", "{latin}"),
    ("calibrate --out {new} --accept-length nan", "'nan': give a number of 1 or more"),
    ("calibrate --out {new} -p out_dir elsewhere", "out_dir='elsewhere': --out says where"),
    ("calibrate --out {new} -p resume true", "resume=True: a calibration begins anew"),
    ("calibrate --out {file}", "{file}: Not a directory"),
    ("soak --out {new} --minutes nan", "'nan': give a number above 0"),
    ("soak --out {new} --requests 0", "'0': give a whole number of 1 or more"),
    ("soak --out {new} -p out_dir elsewhere", "out_dir='elsewhere': --out says where"),
    ("soak --out {new} --threshold 64", "max_running_requests=64"),
    ("bundle --out {new} --lock {latin}", "{latin}' cannot be read"),
    ("bundle --out {new} --level 10", "'10': give a whole number from 0 to 9"),
    ("bundle --out {full}", "{full}' exists and is not an empty folder"),
    ("bundle --out {new} --present {latin}", "{latin}' cannot be read"),
    ("models shape llama-8b {file}", "{file}: Not a directory: a part of this path is a file"),
    ("models shape nope {new}", "no shape 'nope': known are llama-8b"),
    ("models smollm2 {file}/below", "{file}: File exists"),
    ("models smollm2 {full}", "{full} exists already"),
    ("report {full}", "{full} holds no manifest.json"),
    ("report {full} --ttft-limit-ms nan", "'nan': give a number above 0"),
    ("report {full} --tpot-limit-ms 0", "'0': give a number above 0"),
]  # fmt: skip


@pytest.fixture
def places(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    (tmp_path / "latin").write_bytes(b"\xff\xfe")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("x", encoding="utf-8")
    return {name: str(tmp_path / name) for name in ("file", "latin", "full", "new")}


@pytest.mark.parametrize(("line", "named"), BAD, ids=[line for line, _ in BAD])
def test_bad_input_is_refused_in_our_own_words(line: str, named: str, places: dict[str, str]) -> None:
    words = [word.format(**places) for word in line.split()]
    answer = CliRunner().invoke(main, words)
    assert answer.exit_code == 2, answer.output
    assert named.format(**places) in answer.output
    assert [w for w in FOREIGN if w in answer.output] == []
    assert not Path(places["new"]).exists(), "nothing is made for a refused run"


def test_a_rule_out_of_order_is_refused_for_a_real_model_too() -> None:
    options = ["--threshold", "8", "--enable-threshold", "20"]
    answer = CliRunner().invoke(main, ["serve", *options, "--", *MODEL, *DRAFT])
    cure = "give an enable_threshold of 8 or less, or raise threshold"
    wanted = f"error: switching rule: enable_threshold=20 is larger than threshold=8: {cure}\n"
    assert (answer.exit_code, answer.output) == (2, wanted)


@pytest.mark.parametrize("kind", [SweepParameters, CrossingParameters])
def test_no_parameter_is_refused_in_words_other_than_ours(kind: type[RunParameters]) -> None:
    refused = 0
    for name in kind.model_fields:
        for value in ("text", -1, 1.5, 10**30, float("nan"), True, [], [None], [[1]], {"a": 1}, None, b"x"):
            try:
                kind.of({name: value})
            except ParameterError as problem:
                refused += 1
                assert str(problem).startswith(f"parameter {name}"), problem
                assert [w for w in FOREIGN if w in str(problem)] == []
                assert "no possible value" not in str(problem), "the cure, not only the fault"
    assert refused > 200


@pytest.mark.parametrize("more", [[], ["--no-notebook"], ["--dry-run"]], ids=str)
def test_an_interrupt_before_a_run_is_told_in_words(
    more: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def plan(_: object) -> None:
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(SweepParameters, "plan", plan)
    answer = CliRunner().invoke(main, ["sweep", "--out", str(tmp_path / "run"), *more])
    assert (answer.exit_code, answer.output) == (1, "error: interrupted by SIGINT: nothing was measured\n")
