"""A user's own copies of the notebooks, in a folder that git ignores: Jupyter saves into what it opens.

A copy that its user has not changed follows the original when that changes; a changed one is never touched.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from specswitch.results.files import make_folder, saying_why, write_json

ORIGIN = "specswitch"  # in a copy's metadata: {"copied": digest of the original at that time}


class NoSuchNotebookError(ValueError):
    """No notebook, or more than one, has this name. Names those that there are."""


def bring(originals: Path, folder: Path) -> list[str]:
    """Bring a copy of every notebook in `originals` into `folder`; returns what the user should know.

    Raises:
        ResultsError: the folder cannot be written.
    """
    if not folder.exists():
        make_folder(folder)
        with saying_why(folder):
            (folder / ".gitignore").write_text("*\n", encoding="utf-8")
    return [note for original in sorted(originals.glob("*.ipynb")) if (note := _bring(original, folder))]


def find(name: str, *folders: Path) -> str:
    """The file name of the notebook in `folders` with this name, or with a part of it that no other has.

    `04-live.ipynb` for `04-live`, `live` and any path that ends with it. Raises NoSuchNotebookError.
    """
    there = sorted({path.stem for folder in folders for path in folder.glob("*.ipynb")})
    wanted = Path(name).name.removesuffix(".ipynb")
    exact = [stem for stem in there if stem == wanted]
    found = exact or [stem for stem in there if wanted and wanted in stem]
    if len(found) != 1:
        known = ", ".join(found or there)
        raise NoSuchNotebookError(f"notebook {name!r}: {'which of' if found else 'there are'} {known}")
    return f"{found[0]}.ipynb"


def set_aside(copy: Path) -> Path:
    """Give a copy another name, `04-live-own1.ipynb`, so that a fresh one can take its place; returns it."""
    names = (copy.with_stem(f"{copy.stem}-own{n}") for n in range(1, 10_000))
    aside = next(path for path in names if not path.exists())
    with saying_why(aside):
        copy.rename(aside)
    return aside


def _bring(original: Path, folder: Path) -> str | None:
    copy = folder / original.name
    notebook = json.loads(original.read_text(encoding="utf-8"))
    now = _digest(notebook)
    if not copy.exists():
        _write(copy, notebook, now)
        return None
    try:
        mine = json.loads(copy.read_text(encoding="utf-8"))
        is_now, was = _digest(mine), mine["metadata"].get(ORIGIN, {}).get("copied")
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return f"{copy} is no readable notebook: left as it is; --fresh sets it aside"
    if now in (is_now, was):
        return None
    if is_now == was:
        _write(copy, notebook, now)
        return None
    return f"{copy.name}: yours was changed by you, the original since then, too: yours is kept; --fresh sets it aside"


def _write(copy: Path, notebook: dict[str, Any], digest: str) -> None:
    metadata = {**notebook["metadata"], ORIGIN: {"copied": digest}}
    write_json(copy, {**notebook, "metadata": metadata})


def _digest(notebook: dict[str, Any]) -> str:
    """Of what a person writes: kind, text and tags of each cell. Outputs and the rest of the metadata do not count."""
    cells = [[c["cell_type"], "".join(c["source"]), c["metadata"].get("tags", [])] for c in notebook["cells"]]
    return hashlib.sha256(json.dumps(cells).encode("utf-8")).hexdigest()
