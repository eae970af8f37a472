"""From a run folder to the page, through a real kernel: whole, failed, empty and hostile cases."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from report.built import report_of, run_of
from report.runs import ARMS, write_run
from specswitch.config import project_root
from specswitch.metrics.goodput import Limits
from specswitch.plots.catalogue import FIGURES
from specswitch.report import ReportCheckError, ReportError, build, builder, check, execution
from specswitch.report.banners import banners
from specswitch.report.check import Page
from specswitch.report.scrub import absolute_paths
from specswitch.results import read_run, table
from specswitch.results.layout import DamagedError, ResultsError

NOTEBOOK = project_root() / "notebooks" / "02-report.ipynb"
BLOCKER = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("anywidget", "ipywidgets"):
            raise ImportError(f"{name} is hidden by a test")

sys.meta_path.insert(0, Blocked())
"""


def text(path):
    return path.read_text(encoding="utf-8")


def point_rows(html):
    (table,) = re.findall(r'<table data-table="points">.*?</table>', html, re.S)
    return re.findall(r"<tr>(.*?)</tr>", table.split("<tbody>")[1], re.S)


def test_a_whole_run_becomes_one_small_page_in_its_folder():
    path = report_of("whole")
    assert path == run_of("whole") / "report.html"
    assert path.stat().st_size < 1_500_000
    assert [name for name, _ in Page(text(path)).figures] == list(FIGURES)


def test_a_whole_run_has_no_alarm_and_every_point():
    html = text(report_of("whole"))
    assert 'role="alert"' not in html
    assert len(point_rows(html)) == len(ARMS) * 4 * 3


def test_the_goodput_of_a_stored_run_can_be_asked_for_under_other_limits(tmp_path):
    assert "The limits are TTFT ≤ 150 ms." in text(report_of("whole"))
    run = write_run(tmp_path / "run", ("none", "always-v2"), (1,), 2, ttft_limit_ms=150.0)
    html = text(build(run, tmp_path / "other.html", Limits(tpot_ms=70)))
    assert "The limits are TPOT ≤ 70 ms." in html
    assert "Most output within TPOT ≤ 70 ms: none nothing; always-v2 nothing." in re.sub("<[^>]*>", "", html)


def test_every_comparison_has_its_interval_and_the_repeats_it_would_take():
    html = text(report_of("whole"))
    (found,) = re.findall(r'<table data-table="comparisons">.*?</table>', html, re.S)
    # Two baselines; three dynamic arms against the envelope, and of the two on v2 the other against the best.
    assert found.count("<tr>") == 1 + 4 * (len(ARMS) - 2 + 3 + 1)
    assert "you would need about this many repeats" in html


def test_every_figure_says_how_to_read_it():
    html, points = text(report_of("whole")), table(read_run(run_of("whole")))
    assert html.count('<div class="caption">') == len(FIGURES)
    for name, draw in FIGURES.items():
        reading = draw(points).layout.meta["reading"]
        assert reading[:25] in html, name


def test_provenance_names_commit_packages_models_and_parameters():
    html = text(report_of("whole"))
    manifest = json.loads(text(run_of("whole") / "manifest.json"))
    wanted = [
        manifest["run_id"],
        manifest["provenance"]["packages"]["sglang"],
        "tiny-eagle3",
        "Parameter warmup_s",
    ]
    wanted += [manifest["provenance"]["git_commit"]] if manifest["provenance"]["git_commit"] else []
    assert all(f">{value}<" in html for value in wanted)


def test_c5_a_failed_run_gives_a_page_that_says_so_with_the_finished_points():
    html = text(report_of("failed"))
    assert "<title>FAILED: SYNTHETIC: Specswitch sweep, tiny-target</title>" in html
    assert re.search(
        r'banner-failed" role="alert"><strong>FAILED:</strong> the server ended with exit code 3', html
    )
    statuses = [">finished<" in row for row in point_rows(html)]
    assert (statuses.count(True), statuses.count(False)) == (18, 30)


def test_a26_synthetic_acceptance_is_announced():
    assert "<strong>SYNTHETIC:</strong>" in text(report_of("failed"))
    assert "SYNTHETIC" not in text(report_of("whole"))


def test_a_run_without_any_point_still_gives_a_page(tmp_path):
    html = text(build(write_run(tmp_path / "run", ("none", "always-v2"), (1,), fail_after=0)))
    assert "<strong>FAILED:</strong>" in html
    assert Page(html).figures == []
    assert "No point reached a steady window" in html


def test_a_killed_run_is_reported_as_failed(tmp_path):
    run = write_run(tmp_path / "run", ("none", "always-v2"), (1,), 2)
    manifest = json.loads(text(run / "manifest.json"))
    manifest["status"] = "running"
    (run / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    found = banners(read_run(run), table(read_run(run)))
    assert [(b.kind, b.headline) for b in found] == [("failed", "FAILED:")]
    assert "killed" in found[0].text


def test_a_damaged_point_makes_the_page_say_incomplete(tmp_path):
    run = write_run(tmp_path / "run", ("none", "always-v2"), (1,), 2)
    next((run / "points").glob("none-*")).joinpath("steps.parquet").write_bytes(b"cut")
    stored = read_run(run)
    (banner,) = banners(stored, table(stored))
    assert banner.headline == "INCOMPLETE:"
    assert "3 of 4 planned points" in banner.text
    assert "1 point could not be read" in banner.text
    assert not absolute_paths(banner.text), "else the page would be refused"


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A build under LC_ALL=C, a secret in the environment, no widget packages, an odd folder name."""
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "sitecustomize.py").write_text(BLOCKER, encoding="utf-8")
    server = {
        "name": "always-v2",
        "argv": ["python", "-m", "sglang.launch_server", "--model-path", f"{Path.home()}/models/tiny"],
        "env": {"HF_TOKEN": "hf_do_not_print", "SGLANG_ENABLE_SPEC_V2": "1", "USER": "somebody"},
    }
    run = write_run(
        folder / "my run é",
        ("none", "always-v2"),
        (1, 4),
        2,
        server=server,
        prompt="café 東京 🚀",
        api_key="sk-do-not-print",
    )
    environment = {
        **os.environ,
        "LC_ALL": "C",
        "PYTHONUTF8": "0",
        "PYTHONIOENCODING": "ascii",
        "HF_TOKEN": "hf_do_not_print",
        "PYTHONPATH": str(folder),
    }
    code = "import sys; from specswitch.report import build; build(sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-c", code, str(run)],
        cwd="/",
        env=environment,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return text(run / "report.html")


def test_c17_text_round_trips_under_an_ascii_locale(hostile):
    assert "café 東京 🚀" in hostile


def test_c17_no_home_no_checkout_no_secret_in_the_page(hostile):
    for leak in (f"{Path.home()}/", str(project_root()), "do-not-print", "do_not_print", "somebody"):
        assert leak not in hostile, leak
    assert "…/tiny" in hostile or "$HOME/models/tiny" in hostile
    assert "SGLANG_ENABLE_SPEC_V2=1" in hostile


def test_c15_the_report_needs_no_widget_package(hostile):
    assert [name for name, _ in Page(hostile).figures] == ["throughput", "ratio", "acceptance", "latency"]
    assert "widget" not in re.sub(r"<script.*?</script>", "", hostile, flags=re.S)


def test_c5_a_failing_report_notebook_gives_a_page_and_an_error(tmp_path, monkeypatch):
    broken = nbformat.read(NOTEBOOK, as_version=4)
    broken.cells[2].source += "\nraise RuntimeError('no such thing: /srv/secret/place/x.json')"
    (tmp_path / "notebooks").mkdir()
    nbformat.write(broken, tmp_path / "notebooks" / NOTEBOOK.name)
    monkeypatch.setattr(execution, "project_root", lambda: tmp_path)
    out = tmp_path / "out.html"
    with pytest.raises(ReportError, match=r"02-report.ipynb failed: RuntimeError: no such thing: …/x.json"):
        build(run_of("whole"), out)
    html = text(out)
    assert "<strong>REPORT FAILED:</strong> RuntimeError: no such thing: …/x.json" in html
    assert "/srv/secret" not in html
    assert "Traceback" not in html


def stored_notebook(*_):
    """Stands for an execution that needs no kernel."""
    return nbformat.read(NOTEBOOK, as_version=4), None


def test_a_page_that_fails_its_check_is_not_written(tmp_path, monkeypatch):
    monkeypatch.setattr(execution, "execute", stored_notebook)
    out = tmp_path / "out.html"
    with pytest.raises(ReportCheckError, match="report check 'figures' failed"):
        build(run_of("whole"), out)
    assert not out.exists()


def test_an_old_page_survives_when_the_new_one_cannot_be_written(tmp_path, monkeypatch):
    monkeypatch.setattr(execution, "execute", stored_notebook)
    monkeypatch.setattr(builder, "failures", lambda *_: iter(()))
    with pytest.raises(ResultsError, match="choose another output folder"):
        build(run_of("whole"), tmp_path / "nowhere" / "out.html")


def test_a_folder_that_is_no_run_is_refused(tmp_path):
    with pytest.raises(DamagedError, match=r"holds no manifest\.json"):
        build(tmp_path)


def test_checks_are_the_public_ones():
    assert ReportCheckError is check.ReportCheckError


def test_c2_the_report_notebook_has_one_parameters_cell_and_no_outputs():
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    tagged = [c for c in notebook.cells if "parameters" in c.metadata.get("tags", [])]
    assert len(tagged) == 1
    assert all(not c.get("outputs") and c.get("execution_count") is None for c in notebook.cells)
