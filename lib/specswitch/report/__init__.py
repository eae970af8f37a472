"""A stored run as one HTML file that opens offline: `build(run_dir)`."""

from specswitch.report.builder import ReportCheckError, ReportError, build

__all__ = ["ReportCheckError", "ReportError", "build"]
