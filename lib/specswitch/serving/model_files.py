"""What can be known of a model directory in milliseconds: its config.json and the headers of its weights."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

from specswitch.serving.errors import PreflightError

WEIGHT_PATTERNS = ("*.safetensors", "*.bin", "*.pt", "*.gguf")
TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json", "tiktoken.model", "tekken.json")
_MAX_HEADER = 100_000_000


def read_config(directory: Path, what: str) -> dict[str, Any]:
    """The model's config.json.

    Args:
        directory: the model directory.
        what: "model" or "draft", for the message.

    Raises:
        PreflightError: no such directory, or no readable config.json in it.
    """
    if not directory.exists():
        raise PreflightError(f"{what} {str(directory)!r} does not exist: give a local model directory")
    if not directory.is_dir():
        raise PreflightError(
            f"{what} {str(directory)!r} is a file: give the directory that holds config.json"
        )
    path = directory / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise PreflightError(f"{what} {str(directory)!r} has no config.json: not a model directory") from None
    except (OSError, ValueError) as e:
        raise PreflightError(f"{path} cannot be read: {e}") from e
    if not isinstance(config, dict) or not config.get("architectures"):
        raise PreflightError(f"{path} names no architectures: the engine cannot tell what model this is")
    return config


def text_config(config: dict[str, Any]) -> dict[str, Any]:
    """The part with the language model's sizes; multimodal configs nest it."""
    nested = config.get("text_config")
    return nested if isinstance(nested, dict) else config


def weight_problem(directory: Path, what: str) -> str | None:
    """Why the weights cannot be loaded: none there, a shard missing, a file cut short; None if they look whole."""
    index = directory / "model.safetensors.index.json"
    if index.is_file():
        try:
            shards = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        except (ValueError, KeyError, TypeError, AttributeError) as e:
            return f"{index} is damaged: {e!r}"
        missing = sorted(s for s in shards if not (directory / s).is_file())
        if missing:
            return f"{what} {str(directory)!r} lacks the weight files {', '.join(missing)}"
    files = [p for pattern in WEIGHT_PATTERNS for p in sorted(directory.glob(pattern))]
    if not files:
        return (
            f"{what} {str(directory)!r} holds no weights ({', '.join(WEIGHT_PATTERNS)}): finish the download, or "
            "serve random weights with --load-format dummy"
        )
    for path in files:
        if path.suffix == ".safetensors":
            try:
                tensor_shapes(path)
            except PreflightError as e:
                return str(e)
    return None


def tensor_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Names and shapes in a safetensors file, from its header alone.

    Raises:
        PreflightError: the file is cut short, or no safetensors file (e.g. a pointer to one in large-file storage).
    """
    size = path.stat().st_size
    with open(path, "rb") as f:
        start = f.read(8)
        length = struct.unpack("<Q", start)[0] if len(start) == 8 else 0
        if not 0 < length <= min(_MAX_HEADER, size - 8):
            pointer = start == b"version "
            cure = "a pointer of large-file storage: fetch the real file" if pointer else "copy it again"
            raise PreflightError(f"{path} is no safetensors file or cut short ({size} bytes): {cure}")
        try:
            header = json.loads(f.read(length))
            tensors = {k: v for k, v in header.items() if k != "__metadata__"}
            end = max((v["data_offsets"][1] for v in tensors.values()), default=0)
            shapes = {k: tuple(v["shape"]) for k, v in tensors.items()}
        except (ValueError, KeyError, TypeError, AttributeError) as e:
            raise PreflightError(f"{path} has a damaged header: copy it again") from e
    if size < 8 + length + end:
        raise PreflightError(
            f"{path} is cut short: {size} bytes of {8 + length + end}; copy or download it again"
        )
    return shapes


def all_tensor_shapes(directory: Path) -> dict[str, tuple[int, ...]] | None:
    """Names and shapes over every safetensors file of the model; None if it uses another format."""
    files = sorted(directory.glob("*.safetensors"))
    if not files:
        return None
    return {name: shape for path in files for name, shape in tensor_shapes(path).items()}


def weight_bytes(directory: Path) -> int:
    """Bytes of all weight files."""
    return sum(p.stat().st_size for pattern in WEIGHT_PATTERNS for p in directory.glob(pattern))


def has_tokenizer(directory: Path) -> bool:
    """Whether a tokenizer's vocabulary lies in the directory."""
    return any((directory / name).is_file() for name in TOKENIZER_FILES)
