"""The code path in words and tables: the way of given flags, common flags, the proof, the wrong-file mistake."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from specswitch.report.html import MISSING, Cell, Column, paragraph, table
from specswitch.report.scrub import scrub
from specswitch.serving.code_path import Compared, Foretold, common
from specswitch.serving.path_rules import PathDecision
from specswitch.serving.path_tree import NODES, Question
from specswitch.serving.wrong_file import Outcome

_PROPERTIES = {
    "ranks": "tensor parallel ranks",
    "worker_class": "class of the scheduler's worker",
    "worker_file": "file of that class",
    "stock_class": "the engine's class below it",
    "stock_file": "file of the engine's class",
    "overlap": "overlap scheduler",
    "topk": "top-k",
    "num_draft_tokens": "draft tokens",
    "spec_v2_env": "SGLANG_ENABLE_SPEC_V2",
    "enable_threshold": "enable threshold",
    "speculative_steps": "speculative steps made",
    "plain_steps": "plain steps made",
}


def way(seen: Foretold) -> list[str]:
    """One sentence per question that was asked, and the outcome."""
    decision = seen.decision
    sentences = []
    for step in decision.steps:
        node = NODES[step.question]
        text = node.text if isinstance(node, Question) else step.question
        sentences.append(f"{text} {'Yes' if step.yes else 'No'}: {step.why}.")
    sentences.append(f"So the scheduler holds {decision.worker_class} (path {decision.path}).")
    return sentences + [scrub(f"Specswitch would not start such a server: {p}.") for p in seen.problems]


def common_flags() -> str:
    """Combinations of flags that people use, and the path that each takes, as HTML."""
    columns = [Column(c) for c in ("What", "Flags", "Variable", "Path", "Worker", "Why")]
    rows = []
    for combination, decision in common():
        rows.append(
            [
                Cell(combination.what),
                Cell(" ".join(combination.flags) or "none", kind="wrap"),
                Cell(_words(combination.spec_v2, "unset")),
                Cell(decision.path),
                Cell(f"{decision.worker_class}{', refused' if decision.refused else ''}"),
                Cell("; ".join(decision.refused) or _deciding(decision), kind="wrap"),
            ]
        )
    return table(columns, rows, "common-flags")


def proof(found: Sequence[Compared] | str) -> str:
    """What a running server said about itself beside what was foretold, or why there was none, as HTML."""
    if isinstance(found, str):
        return paragraph(scrub(found))
    columns = [Column(c) for c in ("Property", "Foretold", "The running server", "")]
    rows = [
        [Cell(_PROPERTIES.get(r.what, r.what)), _value(r.foretold), _reported(r.reported), _verdict(r.agrees)]
        for r in map(_variable_in_words, found)
    ]
    return table(columns, rows, "proof")


def mistake(outcomes: Sequence[Outcome]) -> str:
    """The starts of the wrong-file mistake side by side, one row per property, as HTML."""
    if not outcomes:
        return paragraph("replay = False: no server was started.")
    columns = [Column("")] + [Column(f"SGLANG_ENABLE_SPEC_V2 {_words(o.spec_v2, 'unset')}") for o in outcomes]
    rows = [
        ("Healthy, and made tokens", [str(o.tokens) for o in outcomes]),
        ("Path", [o.path for o in outcomes]),
        ("Class that the scheduler holds", [o.worker_class for o in outcomes]),
        ("File of that class", [_words(o.stock_file) for o in outcomes]),
        ("Processes that loaded the change", [str(o.loaded) for o in outcomes]),
        ("Times that the change ran", [str(o.ran) for o in outcomes]),
        ("Asked for v2, before the start", [_words(o.refused_before, "accepted") for o in outcomes]),
        ("Asked for v2, of the running server", [_words(o.refused_running, "accepted") for o in outcomes]),
    ]
    return table(columns, [[Cell(head), *map(Cell, cells)] for head, cells in rows], "wrong-file")


def caught(outcomes: Sequence[Outcome]) -> list[str]:
    """What the replay shows, one sentence per start."""
    sentences = []
    for o in outcomes:
        variable = f"SGLANG_ENABLE_SPEC_V2 {_words(o.spec_v2, 'unset')}"
        healthy = f"With {variable} the server was healthy and made {o.tokens} tokens"
        if o.refused_running is None:
            sentences.append(f"{healthy}, its worker is {o.worker_class}, and the change ran {o.ran} times.")
        else:
            sentences.append(
                f"{healthy}, but its worker is {o.worker_class}: the change to eagle_worker_v2.py ran {o.ran} times, "
                "and the proof refuses the server."
            )
    return sentences


def _deciding(decision: PathDecision) -> str:
    """Why the path is this one: the first answer that leaves the way to v2, else the last one on it."""
    asked = [step for step in decision.steps if not step.question.startswith("rule")]
    return next((step for step in asked if not step.yes), asked[-1]).why


def _words(value: Any, absent: str = "none") -> str:
    return absent if value is None else str(value)


def _variable_in_words(row: Compared) -> Compared:
    """The row itself, but a variable that is not set is `unset`, which says more than a dash."""
    if row.what != "spec_v2_env":
        return row
    reported = tuple(_words(value, "unset") for value in row.reported)
    return replace(row, foretold=_words(row.foretold, "unset"), reported=reported)


def _value(value: Any) -> Cell:
    return MISSING if value is None else Cell(str(value))


def _reported(values: Sequence[Any]) -> Cell:
    """One value where all ranks say the same, else all of them by rank."""
    if len(set(values)) == 1:
        return _value(values[0])
    return Cell("; ".join(f"rank {i}: {_words(value)}" for i, value in enumerate(values)))


def _verdict(agrees: bool | None) -> Cell:
    if agrees is None:
        return MISSING
    return Cell("as foretold") if agrees else Cell("differs", kind="bad")
