"""Run folders: written once by `open_store`, read by `read_run`, seen as a table by `table`."""

from specswitch.results.run import Run, read_run
from specswitch.results.tables import summary, table

__all__ = ["Run", "read_run", "summary", "table"]
