"""The environment of a server: nothing inherited that changes what it does, everything set is recorded.

A server started from a notebook inherits whatever an earlier cell left in `os.environ`; a variable of the engine
among that silently changes the experiment. So the engine's and our own variables are dropped and set anew, and
those that fake or disturb results are refused unless the run is labelled synthetic.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from specswitch.serving.errors import EnvironmentRefusedError
from specswitch.serving.path_rules import SPEC_V2_ENV

logger = logging.getLogger(__name__)

# The engine's, ours, and what switches Triton and torch to their debugging modes.
OWNED_PREFIXES = ("SGLANG_", "SGL_", "SPECSWITCH_")
OWNED_NAMES = ("TRITON_INTERPRET", "TORCHDYNAMO_DISABLE", "PYTHONDONTWRITEBYTECODE")
SYNTHETIC_PREFIXES = ("SGLANG_SIMULATE_", "SGLANG_TEST_")
RESERVED = (SPEC_V2_ENV, "SPECSWITCH_NONCE", "SPECSWITCH_CPU", "SPECSWITCH_STEPS_DIR")
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ChildEnvironment:
    """`values`: the whole environment. `chosen`: what we set, safe to store. `dropped`: names not passed on."""

    values: dict[str, str]
    chosen: dict[str, str]
    dropped: tuple[str, ...]

    def record(self) -> dict[str, object]:
        """For provenance: names and values that we set, secrets masked, and the names dropped."""
        shown = {k: "***" if _SECRET.search(k) else v for k, v in self.chosen.items()}
        return {"set": dict(sorted(shown.items())), "dropped": list(self.dropped)}


def child_environment(
    *,
    spec_v2: bool,
    cpu: bool,
    nonce: str,
    synthetic: bool = False,
    extra: Mapping[str, str] | None = None,
    steps_dir: Path | None = None,
    inherited: Mapping[str, str] | None = None,
) -> ChildEnvironment:
    """Build a server's environment.

    Args:
        spec_v2: value of SGLANG_ENABLE_SPEC_V2, always set.
        cpu: run on the CPU reference platform, with CUDA hidden.
        nonce: proves that the server which answers is ours.
        synthetic: the run is labelled synthetic, so simulate and test variables may be in `extra`.
        extra: the caller's own variables.
        steps_dir: directory for the per-step records, None for none.
        inherited: defaults to this process's environment.

    Raises:
        EnvironmentRefusedError: a simulate or test variable without the label, or a reserved name in `extra`.
    """
    base = dict(os.environ if inherited is None else inherited)
    extra = dict(extra or {})
    refuse_synthetic(base, extra, synthetic)
    reserved = sorted(set(extra) & set(RESERVED))
    if reserved:
        raise EnvironmentRefusedError(
            f"env sets {', '.join(reserved)}: this is decided by path and device, leave it out"
        )
    plugins = extra.get("SGLANG_PLUGINS")
    if plugins is not None and "specswitch" not in plugins.split(","):
        raise EnvironmentRefusedError(
            f"SGLANG_PLUGINS={plugins} leaves out specswitch: add it, or unset the variable"
        )
    dropped = sorted(k for k in base if k.startswith(OWNED_PREFIXES) or k in OWNED_NAMES)
    chosen = {
        "SGLANG_PLUGINS": "specswitch",
        SPEC_V2_ENV: "1" if spec_v2 else "0",
        "SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION": "0",  # readiness generates its own tokens
        "SPECSWITCH_NONCE": nonce,
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "PYTHONSAFEPATH": "1",  # a random.py in the notebook's folder is not the server's random
        "PYTHONUNBUFFERED": "1",
        "PYTHONUTF8": "1",
    }
    if cpu:
        # Several processes share few cores: threads that spin at a barrier cost more than they save.
        chosen |= {"SPECSWITCH_CPU": "1", "CUDA_VISIBLE_DEVICES": "", "OMP_WAIT_POLICY": "PASSIVE"}
    if steps_dir is not None:
        chosen["SPECSWITCH_STEPS_DIR"] = str(steps_dir)
    chosen |= extra
    values = {k: v for k, v in base.items() if k not in dropped} | chosen
    lost = [k for k in dropped if k.startswith("SGLANG_") and k not in chosen]
    if lost:
        logger.warning(
            "Not passed on to the server: %s. Variables belong into ServerConfig.env", ", ".join(lost)
        )
    return ChildEnvironment(values, chosen, tuple(dropped))


def refuse_synthetic(inherited: Mapping[str, str], extra: Mapping[str, str], synthetic: bool) -> None:
    """Raises EnvironmentRefusedError for simulate and test variables in a run that is not labelled synthetic."""
    if synthetic:
        return
    here = sorted(k for k in inherited if k.startswith(SYNTHETIC_PREFIXES))
    asked = sorted(k for k in extra if k.startswith(SYNTHETIC_PREFIXES))
    if here:
        raise EnvironmentRefusedError(
            f"{', '.join(here)} is set in this process's environment: it makes a server invent results. "
            f"Remove it (os.environ.pop({here[0]!r})), or label the run synthetic (ServerConfig.env with "
            "synthetic=True; serve --synthetic)"
        )
    if asked:
        raise EnvironmentRefusedError(
            f"env sets {', '.join(asked)}, which makes a server invent results: "
            "label the run with synthetic=True, or leave it out"
        )
