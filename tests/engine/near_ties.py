"""Force an output through a plain engine, for the judgement of `specswitch.metrics.near_ties`. (field case A25)"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def force(engine: Any, prompt: Sequence[int], produced: Sequence[int]) -> tuple[list[float], list[float]]:
    """Ask a plain engine for the next token after every prefix of `produced`.

    Returns the logprob of each produced token and the best logprob there. The prefixes come from the cache.
    """
    rids = [
        engine.submit(
            [*prompt, *produced[:i]],
            {"max_new_tokens": 1, "ignore_eos": True},
            return_logprob=True,
            top_logprobs_num=1,
            token_ids_logprob=[token],
        )
        for i, token in enumerate(produced)
    ]
    engine.run()
    reqs = [engine.requests[rid] for rid in rids]
    own = [req.output_token_ids_logprobs_val[0][0] for req in reqs]
    best = [req.output_top_logprobs_val[0][0] for req in reqs]
    return own, best
