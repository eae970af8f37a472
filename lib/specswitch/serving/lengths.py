"""Do prompt and output fit a server? By the engine's own bounds, which are tighter than the context's length.

What is over a bound is not refused when the server starts: each request then fails, or ends early in spite of
ignore_eos.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from specswitch.config import Path_
from specswitch.serving import model_files
from specswitch.serving.errors import PreflightError
from specswitch.serving.flags import ServerFlags

KEPT_BACK = 2  # the scheduler: new tokens <= context - 2 - prompt
KEPT_OF_PROMPT = 7  # the scheduler: prompt <= context - 7


def check_lengths(flags: ServerFlags, path: Path_, prompt_tokens: int, output_tokens: int) -> None:
    """Make sure that a request of so many tokens gets its whole output from a server with these flags on `path`.

    Raises:
        PreflightError: says which limit is too small, and what would do.
    """
    asked = f"prompt_tokens={prompt_tokens} and output_tokens={output_tokens} need"
    needed = _context(prompt_tokens, output_tokens, max(_drafts(flags), KEPT_BACK))
    kept = f"{needed - prompt_tokens - output_tokens} of it kept back by the engine"
    for name, limit, cure in _context_limits(flags):
        if needed > limit:
            raise PreflightError(f"{asked} a context of {needed} tokens ({kept}), {name} is {limit}: {cure}")
    page = flags.page_size or 1
    slots = _slots(flags, path, page, prompt_tokens, output_tokens)
    if flags.max_total_tokens is not None and slots > flags.max_total_tokens // page * page:
        raise PreflightError(
            f"{asked} a KV cache of {slots} tokens on path {path}, max_total_tokens is {flags.max_total_tokens}: "
            f"shorten the workload or give at least {_paged(slots, page)}"
        )


def _context(prompt: int, output: int, kept: int) -> int:
    return max(prompt + output + kept, prompt + KEPT_OF_PROMPT)


def _slots(flags: ServerFlags, path: Path_, page: int, prompt: int, output: int) -> int:
    """KV slots for one such request alone: for its admission, and for its last decode step, drafts included.

    v1's starts at most at one token less than asked for, the last of which has no slot yet. v2 runs one step ahead:
    it counts one slot more, and the drafts' twice.
    """
    admission = max(_paged(prompt, page) + output + page + 1, _context(prompt, output, KEPT_BACK))
    last_step = prompt + output - 2 + (1 + 2 * _drafts(flags) if path == "v2" else _drafts(flags))
    return max(admission, last_step)


def _paged(tokens: int, page: int) -> int:
    return -(-tokens // page) * page


def _drafts(flags: ServerFlags) -> int:
    """Tokens that the engine keeps free for the drafts of one step; 0 without speculation."""
    if flags.speculative_algorithm is None:
        return 0
    tree = (flags.speculative_eagle_topk or 1) * (flags.speculative_num_steps or 0)
    return max(tree, flags.speculative_num_draft_tokens or 0)


def _context_limits(flags: ServerFlags) -> Iterator[tuple[str, int, str]]:
    """Every limit of the context that is known: its name, its tokens, and what to do about it."""
    shorten = "shorten the workload"
    if flags.context_length is not None:
        yield "context_length", flags.context_length, f"{shorten} or raise it"
    for what, directory in (("model", flags.model_path), ("draft", flags.speculative_draft_model_path)):
        if directory is not None:
            config = model_files.text_config(model_files.read_config(Path(directory), what))
            positions = config.get("max_position_embeddings")
            if positions is not None:
                yield f"the {what}'s max_position_embeddings", positions, shorten
