"""Paths of the machine go, everything else stays."""

from pathlib import Path

import pytest

from specswitch.config import project_root
from specswitch.report.scrub import absolute_paths, scrub

LEAKS = [
    ("--model-path /srv/models/tiny-target", "--model-path …/tiny-target"),
    ("--model-path=/srv/models/tiny/", "--model-path=…"),
    ("cannot open '/var/tmp/run 1/point.json'", None),
    ("see /data/a/b.log, /data/c.log", "see …/b.log, …/c.log"),
    ("~/models/llama", "…/llama"),
    (r"C:\Users\someone\run\server.log", "…/server.log"),
    ("file=/a/b/c d", "file=…/c d"),
]
KEPT = [
    "tokens/s and/or none/always/off",
    "http://127.0.0.1:30000/v1/models",
    "GET /health answered 200",
    "meta-llama/Llama-3.1-8B",
    "1/2, 3/4/5",
    "…/already/short",
    "95% t interval, 1.2× (1.1 to 1.3)",
]


@pytest.mark.parametrize(("text", "clean"), LEAKS)
def test_absolute_paths_are_cut_to_their_last_part(text, clean):
    assert absolute_paths(text)
    assert not absolute_paths(scrub(text))
    if clean is not None:
        assert scrub(text) == clean


@pytest.mark.parametrize("text", KEPT)
def test_other_text_is_left_alone(text):
    assert scrub(text) == text
    assert not absolute_paths(text)


@pytest.mark.parametrize("folder", [str(Path.home()), str(project_root())])
def test_home_and_checkout_are_found_wherever_they_stand(folder):
    text = f"({folder}/reports/my run é/x) and {folder}"
    assert absolute_paths(text)
    assert folder not in scrub(text)


def test_a_home_with_a_space_is_taken_out_whole(monkeypatch):
    monkeypatch.setenv("HOME", "/home/jo café")
    assert scrub("/home/jo café/run/x.json") == "…/run/x.json"
