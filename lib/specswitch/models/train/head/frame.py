"""What stands around a user's turn: the chat template of the target, as token ids.

A target without a template is treated as a base model: a prompt is the beginning of a text, the answer its
continuation.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tokenizers import Tokenizer

from specswitch.models.given_target import UnsupportedTargetError, read_config

_MARK = "THE-USERS-TURN"


@dataclass(frozen=True, slots=True)
class Frame:
    """Token ids `before` and `after` a user's turn; `turn_end` ends the turn (None: a base model's text has no turns).

    ends: ids that end an answer. special: ids that no turn may hold.
    """

    tokenizer: Tokenizer
    before: list[int]
    after: list[int]
    turn_end: int | None
    ends: frozenset[int]
    special: frozenset[int]

    def encode(self, text: str) -> list[int]:
        """The whole prompt for a user's text."""
        return [*self.before, *self.tokenizer.encode(text, add_special_tokens=False).ids, *self.after]

    def decode(self, ids: Sequence[int]) -> str:
        """Text of a turn, without white space around it."""
        return self.tokenizer.decode(list(ids), skip_special_tokens=False).strip()


def read_frame(directory: Path) -> Frame:
    """The frame that the tokenizer and config files of `directory` describe.

    Raises UnsupportedTargetError if there is no tokenizer.json or the template does not show a turn's text.
    """
    file = directory / "tokenizer.json"
    if not file.is_file():
        raise UnsupportedTargetError(
            f"no tokenizer.json in {directory}: training needs the target's tokenizer"
        )
    tokenizer = Tokenizer.from_file(str(file))
    special = frozenset(i for i, token in tokenizer.get_added_tokens_decoder().items() if token.special)
    config = read_config(directory)
    ends = _ids(config.get("eos_token_id"))
    defaults = directory / "generation_config.json"
    if defaults.is_file():
        ends |= _ids(json.loads(defaults.read_text(encoding="utf-8")).get("eos_token_id"))
    template = _rendered(directory)
    if template is None:
        begin = config.get("bos_token_id")
        before = [begin] if begin is not None else sorted(ends)[:1]
        if not before:
            raise UnsupportedTargetError(f"{directory}: no bos_token_id or eos_token_id to begin a text with")
        return Frame(tokenizer, before, [], None, frozenset(ends), special)
    left, mark, right = template.partition(_MARK)
    after = tokenizer.encode(right, add_special_tokens=False).ids
    if not mark or not after:
        raise UnsupportedTargetError(f"{directory}: the chat template does not frame a user's turn")
    before = tokenizer.encode(left, add_special_tokens=False).ids
    return Frame(tokenizer, before, after, after[0], frozenset(ends | {after[0]}), special)


def _rendered(directory: Path) -> str | None:
    """The template around the mark, the answer begun; None without a template."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(directory, local_files_only=True)
    if not tokenizer.chat_template:
        return None
    turn = [{"role": "user", "content": _MARK}]
    return str(tokenizer.apply_chat_template(turn, tokenize=False, add_generation_prompt=True))


def _ids(value: int | list[int] | None) -> set[int]:
    return set() if value is None else {value} if isinstance(value, int) else set(value)
