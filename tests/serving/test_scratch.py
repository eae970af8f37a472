"""A server's own folder for temporary files."""

from __future__ import annotations

from pathlib import Path

import pytest

from specswitch.serving import scratch


def test_a_path_too_long_for_sockets_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep, short = tmp_path / ("x" * 90), tmp_path / "s"
    deep.mkdir()
    short.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    monkeypatch.setattr(scratch, "SHORT", str(short))
    monkeypatch.setattr(scratch, "LONGEST", len(str(short)) + 40)
    folder = scratch.make()
    assert folder is not None
    assert folder.parent == short
    monkeypatch.setattr(scratch, "LONGEST", 10)
    assert scratch.make() is None
    assert list(deep.iterdir()) == []
    assert list(short.iterdir()) == [folder]


def test_a_gpu_servers_compiled_kernels_stay_for_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = scratch.make()
    assert folder is not None
    on_gpu = scratch.environment({"A": "1"}, folder)
    assert (on_gpu["A"], on_gpu["TMPDIR"]) == ("1", str(folder))
    for cache in ("TORCHINDUCTOR_CACHE_DIR", "CUTE_DSL_CACHE_DIR"):
        assert Path(on_gpu[cache]).is_relative_to(tmp_path)
        assert not Path(on_gpu[cache]).is_relative_to(folder)
    own = scratch.environment({"TORCHINDUCTOR_CACHE_DIR": "/mine"}, folder)
    assert own["TORCHINDUCTOR_CACHE_DIR"] == "/mine"
    on_cpu = scratch.environment({"SPECSWITCH_CPU": "1"}, folder)
    assert on_cpu == {"SPECSWITCH_CPU": "1", "TMPDIR": str(folder)}


def test_only_a_servers_folder_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = scratch.make()
    assert folder is not None
    (folder / "x").write_text("x", encoding="utf-8")
    (tmp_path / "other").mkdir()
    for place in (folder, tmp_path / "other", None, tmp_path / "specswitch-server-gone"):
        scratch.remove(place)
    assert (tmp_path / "other").is_dir()
    assert not folder.exists()
