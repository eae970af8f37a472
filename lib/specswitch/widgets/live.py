"""What the live notebook's cells call."""

from __future__ import annotations

from specswitch.widgets.panel import Panel
from specswitch.widgets.parameters import LiveParameters

_open: Panel | None = None


def open_panel(asked: LiveParameters) -> Panel:
    """A new panel; show its `box`. With a URL it attaches at once. The panel opened before is closed."""
    global _open
    if _open is not None:
        _open.close(timeout_s=0)  # its server ends in its own thread
    _open = Panel(asked)
    if asked.url:
        _open.start.click()
    return _open
