"""Shared by every test folder. Lying here, this file also puts `tests/` on the import path (`fakes`)."""

from __future__ import annotations

import os

# Threads that spin at a barrier while their partner has no core turn milliseconds into seconds.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
