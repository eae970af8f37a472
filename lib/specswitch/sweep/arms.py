"""Arms by their short names, the way a parameters cell and a legend write them: `Arm.label` read backwards."""

from __future__ import annotations

import re

from pydantic import ValidationError

from specswitch.config import Arm, Rule
from specswitch.explain import explain

FORM = (
    "none, none-sync, always-v1, always-v2, off-v1, off-v2[-lazy|-eager|-stale] or "
    "dynamic-v1-t8, dynamic-v2-t8[-e4][-d16][-lazy|-eager|-stale]"
)
_LABEL = re.compile(
    r"(?P<mode>always|off|dynamic)-(?P<path>v1|v2)(?:-t(?P<threshold>\d+))?(?:-e(?P<enable>\d+))?"
    r"(?:-d(?P<dwell>\d+))?(?:-(?P<sync>lazy|eager|stale))?"
)


def parse_arm(label: str, lazy_window: int | None = None) -> Arm:
    """The arm with this label; `parse_arm(arm.label)` gives the arm back.

    `lazy_window` goes into the rule of off and dynamic arms.

    Raises:
        ValueError: no such form, or an impossible rule; names the label.
    """
    if label in ("none", "none-sync"):
        return Arm(mode="none", overlap=label == "none")
    found = _LABEL.fullmatch(label)
    if found is None:
        raise ValueError(f"arm {label!r}: write {FORM}")
    mode, threshold = found["mode"], found["threshold"]
    fields: dict[str, object] = {}
    if mode == "off":
        fields["threshold"] = 0
    elif threshold is not None:
        fields["threshold"] = int(threshold)
    if found["enable"] is not None:
        fields["enable_threshold"] = int(found["enable"])
    if found["dwell"] is not None:
        fields["dwell"] = int(found["dwell"])
    if found["sync"] is not None:
        fields["sync"] = found["sync"]
    if mode != "always":
        fields["lazy_window"] = lazy_window
    try:
        arm = Arm.model_validate({"mode": mode, "path": found["path"], "rule": Rule.model_validate(fields)})
    except ValidationError as problem:
        raise ValueError(f"arm {label!r}: {explain(problem)}") from problem
    if arm.label != label:
        raise ValueError(f"arm {label!r}: this is {arm.label!r}, write that")
    return arm
