"""The installed engine's command-line options, read from its source without importing it.

Importing the engine takes seconds; a wrong flag should be known at once. `ServerArgs.add_cli_args` is read as a
syntax tree and rebuilt as an argparse parser with the same names, arities and abbreviations (a test compares it
with the engine's own parser).
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NoReturn

from specswitch.serving.errors import FlagError

OWN_OPTIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("--speculative-disable-batch-threshold", {"type": int}),
    ("--speculative-enable-batch-threshold", {"type": int}),
    ("--speculative-switch-dwell", {"type": int}),
    ("--speculative-draft-sync", {"choices": ("lazy", "eager", "stale")}),
    ("--speculative-lazy-window", {"type": int}),
    ("--speculative-batch-table", {}),
    ("--specswitch-check", {"action": "store_true"}),
)
_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_UNITS |= {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
_LITERALS = ("nargs", "const", "choices", "dest")


def _whole_number_with_unit(text: str) -> int:
    """`4096`, `4k` (thousands) or `4Ki` (of 1024), as the engine reads its token counts."""
    digits = text.strip().rstrip("kKMGTi")
    unit = text.strip()[len(digits) :]
    if unit not in _UNITS:
        raise ValueError(text)
    return int(digits) * _UNITS[unit] if "." not in digits else int(float(digits) * _UNITS[unit])


_TYPES = {"int": int, "float": float, "human_readable_int": _whole_number_with_unit}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise FlagError(f"server flags: {message}")


def engine_root() -> Path:
    """Directory of the installed `sglang` package.

    Raises:
        FlagError: it is not installed.
    """
    spec = importlib.util.find_spec("sglang")
    if spec is None or not spec.submodule_search_locations:
        raise FlagError("sglang is not installed in this environment: see requirements/README.md")
    return Path(next(iter(spec.submodule_search_locations)))


@lru_cache(maxsize=1)
def build_parser() -> argparse.ArgumentParser:
    """A parser for the engine's flags and ours. Only given flags appear in the namespace.

    Its errors are FlagError. Choices and number types are checked where the engine's source states them as
    literals, there or in a list at its top.
    """
    parser = _Parser(prog="server", add_help=False, argument_default=argparse.SUPPRESS)
    for names, kwargs in _engine_options():
        parser.add_argument(*names, **kwargs)
    for name, kwargs in OWN_OPTIONS:
        parser.add_argument(name, **kwargs)
    return parser


def known_options() -> frozenset[str]:
    """Every option string, e.g. `--tp-size`, that the parser knows."""
    return frozenset(build_parser()._option_string_actions)


def _engine_options() -> list[tuple[list[str], dict[str, Any]]]:
    source = engine_root() / "srt" / "server_args.py"
    tree = ast.parse(source.read_text(encoding="utf-8"))
    constants = _constants(tree)
    found = [
        _option(call, constants)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef) and function.name == "add_cli_args"
        for call in ast.walk(function)
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr == "add_argument"
    ]
    if not found:
        raise FlagError(f"{source} has no ServerArgs.add_cli_args: another engine version is installed")
    return found


def _constants(tree: ast.Module) -> dict[str, Any]:
    """The lists of choices that the engine's source states at its top, by name, sets in the order of their words.

    A backend that only a plugin of the engine's adds is not among them.
    """
    found = {}
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            try:
                value = ast.literal_eval(statement.value)
            except ValueError:
                continue
            if isinstance(value, list | tuple | set | frozenset):
                found[statement.targets[0].id] = (
                    sorted(value) if isinstance(value, set | frozenset) else value
                )
    return found


def _option(call: ast.Call, constants: Mapping[str, Any]) -> tuple[list[str], dict[str, Any]]:
    names = [a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    given = {k.arg: k.value for k in call.keywords if k.arg}
    kwargs: dict[str, Any] = {}
    for key in _LITERALS:
        if key not in given:
            continue
        stated = given[key]
        if isinstance(stated, ast.Name) and stated.id in constants:
            kwargs[key] = constants[stated.id]
        else:
            try:
                kwargs[key] = ast.literal_eval(stated)
            except ValueError:
                continue  # computed in the engine: any value passes here, the engine checks it
    action = ast.unparse(given["action"]) if "action" in given else ""
    if action in ("'store_true'", "'store_false'"):
        kwargs["action"] = ast.literal_eval(given["action"])
        kwargs.pop("const", None)
    elif action.endswith("BooleanOptionalAction"):
        kwargs["action"] = argparse.BooleanOptionalAction
    elif "Deprecated" in action:
        kwargs = {k: v for k, v in kwargs.items() if k == "dest"} | {"action": "store_true"}
    kind = _TYPES.get(ast.unparse(given["type"])) if "type" in given else None
    if kind is not None and "action" not in kwargs:
        kwargs["type"] = kind
    return names, kwargs
