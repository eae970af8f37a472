"""What went wrong, on the page: output of threads has no cell to go to, so it is kept here, newest first."""

from __future__ import annotations

import html
import logging
import time
from collections import deque

import ipywidgets as w

KEPT = 30
COLOURS = {"error": "#b42318", "warning": "#b54708", "info": "inherit"}


class Messages:
    """A list of messages as a widget (`box`), the newest 30. May be used from any thread."""

    def __init__(self) -> None:
        self._lines: deque[tuple[str, str, str]] = deque(maxlen=KEPT)
        self.box = w.HTML()

    def add(self, text: str, level: str = "error") -> None:
        """Show `text` on top, with the time of day. Repeated at once, it only gets a new time."""
        if self._lines and self._lines[0][1:] == (level, text):
            self._lines.popleft()
        self._lines.appendleft((time.strftime("%H:%M:%S"), level, text))
        self.box.value = "".join(_line(*line) for line in tuple(self._lines))

    @property
    def texts(self) -> list[str]:
        """The messages, newest first."""
        return [text for _, _, text in self._lines]


class MessagesHandler(logging.Handler):
    """Warnings of this package's log, among the messages."""

    def __init__(self, messages: Messages) -> None:
        super().__init__(logging.WARNING)
        self._messages = messages

    def emit(self, record: logging.LogRecord) -> None:
        """Show the record."""
        self._messages.add(record.getMessage(), "warning")


def _line(at: str, level: str, text: str) -> str:
    return (
        f'<div class="specswitch-{level}" style="color:{COLOURS[level]};line-height:1.4;white-space:pre-wrap;'
        f'overflow-wrap:anywhere"><span style="opacity:.7">{at}</span> {html.escape(text)}</div>'
    )
