"""The doctor's answer, as an object and from the command line."""

from __future__ import annotations

import importlib.metadata
import json
import socket
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from specswitch.cli import main
from specswitch.serving import machine
from specswitch.serving.doctor import diagnose
from specswitch.serving.port import free_port

SHAPE = [
    *("--speculative-num-steps", "3"),
    *("--speculative-eagle-topk", "1"),
    *("--speculative-num-draft-tokens", "4"),
]


@pytest.fixture
def flags(target: Path, draft: Path) -> list[str]:
    given = ["--model-path", str(target), "--device", "cpu", "--speculative-algorithm", "EAGLE3"]
    given += ["--port", str(free_port())]
    return [*given, "--speculative-draft-model-path", str(draft), *SHAPE]


def test_a_good_setup_is_healthy_and_explained(flags: list[str]) -> None:
    found = diagnose(flags, {})
    assert (found.path, found.worker_class, found.device) == ("v2", "EAGLEWorkerV2", "cpu")
    assert found.sglang_version == found.tested_version == importlib.metadata.version("sglang")
    assert found.reasons
    assert found.healthy, found.to_text()


def test_the_environment_counts(flags: list[str]) -> None:
    """Field case A22."""
    found = diagnose(flags, {"SGLANG_ENABLE_SPEC_V2": "0"})
    assert (found.path, found.spec_v2_env) == ("v1", "0")
    assert any("SGLANG_ENABLE_SPEC_V2=0" in r for r in found.reasons)


def test_a_simulator_in_the_environment_is_a_problem(flags: list[str]) -> None:
    """Field case A26."""
    found = diagnose(flags, {"SGLANG_SIMULATE_ACC_LEN": "3"})
    assert not found.healthy
    assert any("SGLANG_SIMULATE_ACC_LEN" in p for p in found.problems)


def test_json_has_the_promised_keys_and_the_exit_code_says_healthy(flags: list[str]) -> None:
    answer = CliRunner().invoke(main, ["doctor", "--json", "--", *flags])
    assert answer.exit_code == 0, answer.output
    found = json.loads(answer.output)
    assert {"sglang_version", "path", "worker_class", "reasons", "supported", "device"} <= set(found)
    assert found["supported"] is True


def test_problems_are_exit_code_1_and_bad_flags_are_2(flags: list[str]) -> None:
    unhealthy = CliRunner().invoke(main, ["doctor", "--", *flags, "--model-path", "/no/such"])
    assert unhealthy.exit_code == 1
    assert "/no/such" in unhealthy.output
    bad = CliRunner().invoke(main, ["doctor", "--", "--no-such-flag"])
    assert bad.exit_code == 2
    assert "--no-such-flag" in bad.output


@pytest.mark.parametrize("text", [None, "", '{"speculate": [[4, 2]]}'])
def test_a_batch_table_that_cannot_be_used_is_not_ready_to_serve_and_serve_refuses_it(
    flags: list[str], tmp_path: Path, text: str | None
) -> None:
    table = tmp_path / "table.json"
    if text is not None:
        table.write_text(text, encoding="utf-8")
    given = [*flags, "--speculative-batch-table", str(table)]
    doctor, serve = (CliRunner().invoke(main, [verb, "--", *given]) for verb in ("doctor", "serve"))
    assert (doctor.exit_code, serve.exit_code) == (1, 2)
    assert "Not ready to serve." in doctor.output
    assert all(str(table) in answer.output for answer in (doctor, serve))


def test_a_good_batch_table_is_ready_to_serve(flags: list[str], tmp_path: Path) -> None:
    table = tmp_path / "table.json"
    table.write_text('{"speculate": [[1, 4]]}', encoding="utf-8")
    found = diagnose([*flags, "--speculative-batch-table", str(table)], {})
    assert found.healthy, found.to_text()
    assert found.worker_class == "DynamicEAGLEWorkerV2"


@pytest.mark.parametrize("flags", [[], ["--device", "cpu"], ["--device", "cpu", "--dtype", "float32"]])
def test_without_a_model_path_it_says_what_it_could_not_check(flags: list[str]) -> None:
    answer = CliRunner().invoke(main, ["doctor", "--", *flags])
    assert answer.exit_code == 2, answer.output
    assert "Problems:" not in answer.output
    assert "  - the model, and whether a draft fits it: --model-path is missing: give" in answer.output
    assert "  - speculation: no --speculative-algorithm was given" in answer.output
    assert "Not ready to serve: a model path is missing. This machine has what it needs." in answer.output
    assert "\nReady to serve" not in answer.output


def test_without_a_model_path_the_other_problems_are_told_all_the_same(draft: Path) -> None:
    flags = ["--device", "cpu", "--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path"]
    found = diagnose([*flags, str(draft / "nowhere")], {})
    assert (found.healthy, found.exit_code) == (False, 2)
    assert any("nowhere" in p for p in found.problems)
    assert not any("--model-path" in p for p in found.problems), "told once"
    assert [n for n in found.not_checked if n.startswith("speculation")] == []


def test_serve_and_doctor_refuse_a_missing_model_path_with_the_same_exit_code_and_words() -> None:
    answers = [CliRunner().invoke(main, [verb, "--", "--device", "cpu"]) for verb in ("doctor", "serve")]
    assert [a.exit_code for a in answers] == [2, 2]
    assert all("--model-path is missing: give a local model directory" in a.output for a in answers)


def test_json_says_what_was_not_checked(flags: list[str]) -> None:
    answer = CliRunner().invoke(main, ["doctor", "--json"])
    found = json.loads(answer.output)
    assert (found["healthy"], answer.exit_code) == (False, 2)
    assert "--model-path is missing" in found["not_checked"][0]
    assert (
        json.loads(CliRunner().invoke(main, ["doctor", "--json", "--", *flags]).output)["not_checked"] == []
    )


def test_ready_to_serve_is_said_of_models_that_were_looked_at(flags: list[str]) -> None:
    assert diagnose(flags, {}).to_text().endswith("Ready to serve.")
    assert diagnose([*flags, "--model-path", "/no/such"], {}).to_text().endswith("Not ready to serve.")


def test_another_engine_version_is_not_supported(flags: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "engine_version", lambda: "0.5.15")
    found = diagnose(flags, {})
    assert not found.supported
    assert "0.5.15" in found.to_text()


def test_a_missing_entry_point_and_package_are_found(
    flags: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine.importlib.metadata, "entry_points", lambda group: ())
    monkeypatch.setattr(
        machine.importlib.metadata,
        "requires",
        lambda _: ["sglang==0.5.12.post1", "kernels<0.1", "no-such-package"],
    )
    text = diagnose(flags, {}).to_text()
    assert "no entry point specswitch in sglang.srt.plugins" in text
    assert "<0.1 is needed" in text
    assert "no-such-package is not installed" in text


def test_too_little_memory_is_found(flags: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine.psutil, "virtual_memory", lambda: SimpleNamespace(available=1 << 30))
    assert any("1.0 GiB of memory are free" in m.what for m in diagnose(flags, {}).missing)


def test_a_taken_port_is_told_as_serve_tells_it(flags: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        more = [*flags, "--port", str(taken.getsockname()[1])]
        told, refused = (CliRunner().invoke(main, [verb, "--", *more]) for verb in ("doctor", "serve"))
    words = refused.output.removeprefix("error: ")
    assert (told.exit_code, refused.exit_code) == (1, 2)
    assert words.startswith(f"port {more[-1]} on 127.0.0.1 is taken")
    assert f"Problems:\n  - {words}" in told.output
    assert "Not ready to serve." in told.output


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (
            ["--port", "99999"],
            "port 99999: the engine keeps port + 10000 for itself, give one from 1 to 55535",
        ),
        (
            ["--speculative-disable-batch-threshold", "4", "--speculative-batch-table", "table.json"],
            "threshold 4 together with --speculative-batch-table table.json: each says alone where to speculate, "
            "leave one of them out",
        ),
    ],
)
def test_an_impossible_value_is_refused_by_doctor_and_serve_alike(
    flags: list[str], more: list[str], words: str
) -> None:
    for verb in ("doctor", "serve"):
        answer = CliRunner().invoke(main, [verb, "--", *flags, *more])
        assert (answer.exit_code, answer.output) == (2, f"error: {words}\n")
