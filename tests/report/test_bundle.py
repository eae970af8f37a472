"""The stored plotly.js is the one on record, licensed, and made for the installed plotly.py."""

import gzip
import hashlib

import pytest
from plotly.offline import get_plotlyjs_version

from specswitch.report import bundle


def test_the_stored_script_is_the_recorded_one():
    script = gzip.decompress(bundle.compressed())
    assert hashlib.sha256(script).hexdigest() == bundle.record()["sha256"]
    assert f"v{bundle.record()['version']}".encode() in script[:200]


def test_its_version_is_the_one_that_the_installed_plotly_makes_figures_for():
    assert bundle.record()["version"] == get_plotlyjs_version()


def test_the_licence_lies_beside_it():
    assert "Permission is hereby granted" in (bundle.STATIC / "LICENSE.plotly").read_text(encoding="utf-8")


def test_a_changed_file_is_refused(tmp_path, monkeypatch):
    (tmp_path / "bundle.json").write_bytes((bundle.STATIC / "bundle.json").read_bytes())
    (tmp_path / "plotly-cartesian.min.js.gz").write_bytes(gzip.compress(b"alert(1)"))
    monkeypatch.setattr(bundle, "STATIC", tmp_path)
    bundle.compressed.cache_clear()
    with pytest.raises(bundle.BundleError, match="expected 8a7a"):
        bundle.compressed()
    monkeypatch.undo()
    assert bundle.compressed()
