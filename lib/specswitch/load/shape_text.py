"""A load shape as one line of text, for a parameters cell or a command line: `kind:name=value,...`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

from pydantic import TypeAdapter, ValidationError

from specswitch.explain import read_given_text, reason
from specswitch.load.shapes import UNIT, ArrivalShape, Shape, SlotShape

_SHAPE: TypeAdapter[Any] = TypeAdapter(Shape)
_KINDS = {
    shape.model_fields["kind"].default: shape for shape in (*get_args(SlotShape), *get_args(ArrivalShape))
}


def parse_shape(text: str, folder: Path | None = None) -> SlotShape | ArrivalShape:
    """The shape that a text like `ramp:low=1,high=16,duration=20` or `trace:file=arrivals.txt` describes.

    Seconds are written without unit (`period=4`). A trace file has one arrival time in seconds a line; a
    relative one is looked for in `folder`.

    Raises:
        ValueError: names the text and what to write instead. FileNotFoundError: no such trace file.
    """
    kind, _, rest = text.strip().partition(":")
    if kind not in _KINDS:
        raise ValueError(
            f"load {text!r}: unknown shape {kind!r}, write one of {', '.join(map(form, _KINDS))}"
        )
    given: dict[str, Any] = {}
    for part in filter(None, (p.strip() for p in rest.split(","))):
        name, equals, value = (p.strip() for p in part.partition("="))
        if not equals or name in given:
            raise ValueError(f"load {text!r}: {part!r} is no new name=value: write {form(kind)}")
        given[name] = value
    if kind == "trace":
        if set(given) != {"file"}:
            raise ValueError(f"load {text!r}: write {form(kind)}")
        fields: dict[str, Any] = {
            "times_s": _read_times((folder or Path()) / Path(given["file"]).expanduser())
        }
    else:
        fields = {_field(kind, name): _number(value) for name, value in given.items()}
        unknown = [name for name in given if _field(kind, name) not in _KINDS[kind].model_fields]
        if unknown:
            raise ValueError(f"load {text!r}: {', '.join(unknown)}: no such name; write {form(kind)}")
    try:
        return _SHAPE.validate_python({"kind": kind, **fields})
    except ValidationError as problem:
        error = problem.errors(include_url=False)[0]
        where = ".".join(str(p) for p in error["loc"][1:]).removesuffix(UNIT)
        what = f"{where}: {reason(error)}" if where else reason(error)
        raise ValueError(f"load {text!r}: {what}; write {form(kind)}") from problem


def form(kind: str) -> str:
    """How a shape of this kind is written, e.g. `poisson:rate=..,duration=..[,seed=..]`."""
    if kind == "trace":
        return "trace:file=PATH"
    fields = [
        (n.removesuffix(UNIT), f.is_required()) for n, f in _KINDS[kind].model_fields.items() if n != "kind"
    ]
    needed = ",".join(f"{name}=.." for name, required in fields if required)
    return f"{kind}:{needed}" + "".join(f"[,{name}=..]" for name, required in fields if not required)


def _field(kind: str, name: str) -> str:
    with_unit = f"{name}{UNIT}"
    return with_unit if with_unit in _KINDS[kind].model_fields else name


def _number(text: str) -> int | float | str:
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text


def _read_times(path: Path) -> tuple[float, ...]:
    if not path.is_file():
        raise FileNotFoundError(f"load trace: no file {path}")
    times = []
    for number, line in enumerate(read_given_text(path).splitlines(), start=1):
        if line.strip():
            try:
                times.append(float(line))
            except ValueError:
                raise ValueError(f"{path} line {number}: {line!r} is no time in seconds") from None
    return tuple(times)
