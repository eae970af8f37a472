"""A draft of the trained one's shape with random weights: the control whose accept length is 1.0.

Whatever a step costs, it costs the same with this draft; what it accepts is chance.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from specswitch.models import pair


def build(dest: Path, seed: int = 0) -> Path:
    """Write the draft directory `dest` (made if need be); the same seed gives the same weights. Returns it.

    Keeps the trained draft's vocabulary map, so only the weights differ.
    """
    import torch
    from safetensors.torch import load_file, save_file

    trained = load_file(pair.draft_dir() / "model.safetensors")
    generator = torch.Generator().manual_seed(seed)
    tensors = {}
    for name, tensor in sorted(trained.items()):
        if name == "d2t":
            tensors[name] = tensor
        elif tensor.ndim == 1:
            tensors[name] = torch.ones_like(tensor)
        else:
            tensors[name] = (0.02 * torch.randn(tensor.shape, generator=generator)).to(tensor.dtype)
    dest.mkdir(parents=True, exist_ok=True)
    save_file(tensors, dest / "model.safetensors", metadata={"format": "pt"})
    shutil.copyfile(pair.draft_dir() / "config.json", dest / "config.json")
    note = {"untrained": True, "seed": seed, "shape_of": "tiny-draft"}
    (dest / "untrained.json").write_text(json.dumps(note, indent=1) + "\n", encoding="utf-8")
    return dest
