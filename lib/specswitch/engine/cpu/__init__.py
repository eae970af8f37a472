"""CPU reference platform: the ops and the attention that stock SGLang lacks without a GPU, in plain torch.

Active only where the environment says `SPECSWITCH_CPU=1`. Two official doors of the engine lead here:
`bootstrap.activate` (early, while the engine is being imported) and `install` (after import, from our plugin).
"""

from __future__ import annotations

import os

ENV_VAR = "SPECSWITCH_CPU"


def requested() -> bool:
    """True if the environment asks for the CPU reference platform."""
    return os.environ.get(ENV_VAR) == "1"


def install() -> None:
    """Put the CPU ops and the attention backend in place; does nothing unless requested. Idempotent.

    Raises RuntimeError if the machine's CUDA is visible, if `bootstrap.activate` did not run early enough, or if
    a patched name does not resolve to ours afterwards.
    """
    if not requested():
        return
    from specswitch.engine.cpu import patches

    patches.install_all()


def installed() -> bool:
    """True if every patched name of the engine resolves to ours in this process."""
    if not requested():
        return False
    from specswitch.engine.cpu import patches

    return patches.missing() == []
