"""Where a request ends when a verify step brings several tokens at once (path v2).

The stock v2 path appends the whole accepted run and then looks once: at the length cap first, and for stop
strings in the last few tokens only. So a stop can be missed or outranked by a cap that lies behind it, which a
plain step, one token at a time, cannot do: the same request would end elsewhere depending on the load. Requests of
a dynamic worker are therefore checked token by token. Stock workers are left as they are.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any


def follow(reqs: list[Any]) -> None:
    """Let these requests look for their end token by token; called when they are prefilled.

    What is set on a request knows it weakly: one that held itself would stay, with all that it holds, until the
    garbage collector's next full round, which in a server comes thousands of requests later.
    """
    for req in reqs:
        if "check_finished" not in vars(req):
            req.check_finished = functools.partial(_check_followed, weakref.ref(req))


def _check_followed(known: weakref.ref[Any], new_accepted_len: int = 1) -> None:
    req: Any = known()  # alive: this is called on it
    check_finished(functools.partial(type(req).check_finished, req), req, new_accepted_len)


def check_finished(original: Callable, req: Any, new_accepted_len: int = 1) -> None:
    """In place of a request's `check_finished`: the earliest of stop and cap wins inside an accepted run, too.

    Args:
        original: the engine's, bound to the request.
        req: the request; the run has been appended to its output.
        new_accepted_len: length of the run.
    """
    if new_accepted_len == 1 or not _may_end_inside(req):
        original(new_accepted_len)
        return
    output = req.output_ids
    for end in range(len(output) - new_accepted_len + 1, len(output) + 1):
        req.output_ids = output[:end]
        original(1)
        if req.finished():
            req.finished_len = end  # what lies behind is not given out
            break
    output[: len(req.output_ids)] = req.output_ids  # the engine replaces tokens out of range
    req.output_ids = output


def _may_end_inside(req: Any) -> bool:
    """Whether looking once at the whole run could find another end; stop tokens alone it finds where they are."""
    if req.finished() or req.to_finish:
        return False
    params = req.sampling_params
    capped = len(req.output_ids) >= params.max_new_tokens
    return capped or bool(params.stop_strs) or bool(params.stop_regex_strs)
