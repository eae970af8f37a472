"""Parameters as a shell gives them, `-p name value` and `-y yaml`, read into the types that the model asks for.

papermill itself turns `-p flag false` into a true text and takes unknown names with a warning; here the type
of the parameter decides how its text is read, and everything is checked before anything starts.
"""

from __future__ import annotations

import json
import shlex
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, Union, get_args, get_origin

import yaml

from specswitch.explain import read_given_text
from specswitch.results.layout import MANIFEST, DamagedError, read_json
from specswitch.results.provenance import lengthen
from specswitch.sweep.parameters import ParameterError, RunParameters

P = TypeVar("P", bound=RunParameters)
# Where and how it runs: not part of what was measured.
NOT_STORED = ("out_dir", "resume", "hold", "executor", "progress", "measure")
_WORDS = {"true": True, "false": False, "none": None, "null": None}


def read_given(
    kind: type[P],
    pairs: Sequence[tuple[str, str]] = (),
    yaml_texts: Sequence[str] = (),
    base: Mapping[str, Any] | None = None,
) -> P:
    """The parameters of a kind of run from `-p` pairs and `-y` texts, laid over `base` (default: nothing).

    Raises:
        ParameterError: not YAML, no mapping, a name twice, unknown or of the wrong type.
    """
    values: dict[str, Any] = {}
    for text in yaml_texts:
        for name, value in _mapping(text).items():
            _put(values, name, value)
    for name, text in pairs:
        _put(values, name, read_value(kind, name, text))
    return kind.of({**(base or {}), **values})


def stored_parameters(folder: Path, kind: type[RunParameters]) -> dict[str, Any]:
    """The parameters of the run in `folder`, to go on with; empty when there is none that can be read.

    Where and how it runs is not among them (`NOT_STORED`).

    Raises:
        ParameterError: the folder holds a run of another kind.
    """
    try:
        manifest = read_json(folder / MANIFEST)
        stored = lengthen(manifest["parameters"], folder)
        holds = "crossing" if "shape" in manifest["plan"] else "sweep"
    except (DamagedError, KeyError):
        return {}
    if holds != kind.COMMAND:
        raise ParameterError(
            f"{folder} holds a {holds} run, not a {kind.COMMAND} run: choose another output folder, or go on with: "
            + shlex.join(["specswitch", holds, "--resume", "--out", str(folder)])
        )
    return {k: v for k, v in stored.items() if k not in NOT_STORED}


def read_yaml(path: Path) -> str:
    """The text of a parameter file. Raises ParameterError when it cannot be read."""
    try:
        return read_given_text(path)
    except ValueError as problem:
        raise ParameterError(f"parameter file {problem}") from problem


def read_value(kind: type[RunParameters], name: str, text: str) -> Any:
    """The value that `text` means for the parameter `name` of `kind`; what does not fit its type is left as text.

    Booleans: true, false. Lists: JSON (`[1, 2]`) or commas (`1,2`). `none` or `null` where None is possible.
    """
    field = kind.model_fields.get(name)
    if field is None:
        return text  # an unknown name is refused with all others
    plain, optional = _plain_type(field.annotation)
    if optional and text.lower() in ("none", "null"):
        return None
    if get_origin(plain) is list:
        return _list(text, get_args(plain)[0])
    return _scalar(text, plain)


def _mapping(text: str) -> dict[str, Any]:
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as problem:
        raise ParameterError(f"not YAML: {' '.join(str(problem).split())}") from problem
    if not isinstance(data, dict):
        raise ParameterError(f"YAML {text!r} is no mapping: write 'name: value' or '{{name: value}}'")
    return {str(name): value for name, value in data.items()}


def _put(values: dict[str, Any], name: str, value: Any) -> None:
    if name in values:
        raise ParameterError(f"parameter {name!r} is given twice")
    values[name] = value


def _list(text: str, kind: Any) -> Any:
    if text.strip().startswith("["):
        try:
            return json.loads(text)
        except json.JSONDecodeError:
            return text
    return [_scalar(part.strip(), kind) for part in text.split(",")] if text.strip() else []


def _scalar(text: str, kind: Any) -> Any:
    """The text as a bool, int or float where `kind` asks for one and the text is one; else the text."""
    kind, _ = _plain_type(kind)
    if kind is bool:
        return _WORDS.get(text.lower(), text)
    for number in (int, float) if kind is float else (int,) if kind is int else ():
        try:
            return number(text)
        except ValueError:
            continue
    return text


def _plain_type(annotation: Any) -> tuple[Any, bool]:
    """The annotation without `Annotated` and `| None`, and whether None was possible."""
    optional = False
    while True:
        if hasattr(annotation, "__metadata__"):
            annotation = annotation.__origin__
        elif get_origin(annotation) in (Union, types.UnionType):
            parts = [part for part in get_args(annotation) if part is not type(None)]
            optional = optional or len(parts) < len(get_args(annotation))
            if len(parts) != 1:
                return annotation, optional
            annotation = parts[0]
        else:
            return annotation, optional
