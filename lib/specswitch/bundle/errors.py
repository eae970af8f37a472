"""The one error of this package."""

from __future__ import annotations


class BundleError(ValueError):
    """The bundle that was asked for cannot be made. The message names the value and the cure."""
