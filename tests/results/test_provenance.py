"""Provenance: what was measured with what, told without the machine's folders."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from specswitch.config import project_root
from specswitch.results import model_identity as identity
from specswitch.results import provenance


def test_folders_are_named_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    inside = str(project_root() / "lib" / "x.py")
    assert provenance.shorten(inside) == "$PROJECT/lib/x.py"
    assert provenance.shorten([f"{sys.prefix}/bin/python", {"a": "/home/somebody"}]) == [
        "$ENV/bin/python",
        {"a": "$HOME"},
    ]
    assert provenance.shorten("/home/somebody-else/x /opt/models/m") == "/home/somebody-else/x /opt/models/m"


def test_the_run_folder_comes_first(tmp_path: Path) -> None:
    assert provenance.shorten(f"{tmp_path}/points/p", tmp_path) == "$RUN/points/p"


def test_what_was_shortened_is_found_again(tmp_path: Path) -> None:
    values = {"out_dir": str(tmp_path), "model": str(project_root() / "m"), "repeats": 3, "env": ["A=$B"]}
    assert provenance.lengthen(provenance.shorten(values, tmp_path), tmp_path) == values


def test_the_processor_is_named_with_the_usable_cores() -> None:
    cores, _, name = provenance.device_string("cpu").partition(" x ")
    assert int(cores) == len(os.sched_getaffinity(0))
    assert name


def test_a_model_is_known_by_the_content_of_its_files(tmp_path: Path) -> None:
    model = tmp_path / "m"
    model.mkdir()
    (model / "config.json").write_text("{}", encoding="utf-8")
    (model / "model.safetensors").write_bytes(b"weights")
    first = identity.model_identity(str(model))
    assert first["hashed"] == "all files"
    assert first["bytes"] == 9
    (model / "model.safetensors").write_bytes(b"weightz")
    assert identity.model_identity(str(model))["sha256"] != first["sha256"]


def test_huge_files_count_by_size_and_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "HASHED_BYTES", 4)
    (tmp_path / "big").write_bytes(b"12345")
    assert identity.model_identity(str(tmp_path))["hashed"] == "small files"


def test_a_hub_name_has_no_digest() -> None:
    assert identity.model_identity("org/model") == {
        "id": "org/model",
        "sha256": None,
        "bytes": None,
        "hashed": None,
    }
