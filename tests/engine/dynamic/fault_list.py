"""The faults, one removed or altered line each: what the prototypes got wrong, and more of the kind.

Long because it is a list. `by(...)` reads: in this module, this text instead of that one.
"""

from __future__ import annotations

import re

from engine.dynamic.faults import Fault

V1, V2, SYNC, HOOKS, WORKERS = "plain_step_v1", "plain_step_v2", "draft_sync", "scheduler_hooks", "workers"
ROWS = "draft_kv_rows"
UNCHECKED = {"specswitch_check": None}  # without our invariants: does the engine or the output show it?
STALE = {"speculative_draft_sync": "stale"}
LARGE = {
    "ranges": [[5, 64]]
}  # off when the batch shrinks: between two decode steps, with no prefill in between


def by(module: str, old: str, new: str) -> tuple[tuple[str, str, str], ...]:
    return ((module, old, new),)


KEEP_FINISHED = by(
    V1,
    "        if not req.finished():\n            unfinished.append(i)",
    "        unfinished.append(i)",
)
NO_COMMIT = by(V1, "req.kv_committed_len += 1", "pass")
NO_APPEND = by(V1, "req.output_ids.append(token)", "pass")
ALLOCATE = "batch.out_cache_loc = alloc_for_decode(batch, token_per_req=1)"
STOCK_RESOLVE = by(
    HOOKS,
    "    if _info_of(scheduler, result).mode is Mode.SPECULATIVE:\n"
    "        return original(scheduler, result, batch)",
    "    return original(scheduler, result, batch)",
)
WRITES_NOTHING = "self.sync.forget([batch.reqs[i] for i in pending]); return 0"
SMALL_PASSES = by(ROWS, "MOST_TOKENS = 8192", "MOST_TOKENS = 8")  # no fault: a few requests are a large batch
STRIDE = by(V2, "result.speculative_num_draft_tokens = 1", "result.speculative_num_draft_tokens = 4")

ON_V1 = [
    Fault("finished rows are kept", "v1", KEEP_FINISHED, "spec_info_has_a_row_per_unfinished_request"),
    Fault("finished rows are kept, engine alone", "v1", KEEP_FINISHED, "should not happen", UNCHECKED),
    Fault("kv_committed_len stays", "v1", NO_COMMIT, "committed_is_tokens_minus_bonus"),
    Fault("kv_committed_len stays, engine alone", "v1", NO_COMMIT, "Mem Leak Detected", UNCHECKED),
    Fault("the token is not appended", "v1", NO_APPEND, "committed_is_tokens_minus_bonus"),
    Fault("the token is not appended, engine alone", "v1", NO_APPEND, "TimeoutError: unfinished", UNCHECKED),
    Fault(
        "kv_allocated_len stays",
        "v1",
        by(V1, "req.kv_allocated_len = req.kv_committed_len", "pass"),
        "allocated_covers_committed",
    ),
    Fault(
        "the slot is written at the new length",
        "v1",
        by(
            V1,
            ALLOCATE,
            f"batch.seq_lens = batch.seq_lens + 1; {ALLOCATE}; batch.seq_lens = batch.seq_lens - 1",
        ),
        "committed_slots_(written|are_not_free)",
    ),
    Fault(
        "lengths on the device stay",
        "v1",
        by(V1, "batch.seq_lens = batch.seq_lens + 1", "pass"),
        "batch_lengths_are_the_requests",
    ),
    Fault(
        "lengths on the host stay",
        "v1",
        by(V1, "batch.seq_lens_cpu = batch.seq_lens_cpu + 1", "pass"),
        "batch_lengths_are_the_requests",
    ),
    Fault(
        "spec_info stays on the plain step",
        "v1",
        by(V1, "batch.spec_info = None  #", "pass  #"),
        "plain_step_has_no_spec_info",
    ),
    Fault(
        "the next draft input takes other rows' tokens",
        "v1",
        by(V1, "draft_input.bonus_tokens[rows]", "draft_input.bonus_tokens[: len(rows)]"),
        "bonus_token_is_the_newest",
    ),
    Fault(
        "a finishing verify's tokens enter the prefix cache",
        "v1",
        by(WORKERS, "self.sync.leave_out_finished(batch.reqs, lens)", "pass"),
        "draft rows differ",
        {"speculative_disable_batch_threshold": 64},
    ),
]

ON_V2 = [
    Fault("stride left at 4 and read", "v2", STRIDE + STOCK_RESOLVE, "committed_is_tokens_minus_bonus"),
    Fault(
        "stride left at 4 and read, engine alone",
        "v2",
        STRIDE + STOCK_RESOLVE,
        "Mem Leak Detected|outputs differ|plain steps counted",
        UNCHECKED,
    ),
    Fault("a plain result is resolved as a verify", "v2", STOCK_RESOLVE, "plain steps counted as verifies"),
    Fault(
        "lengths are moved in place",
        "v2",
        by(V2, "new_lens = batch.seq_lens + 1", "new_lens = batch.seq_lens.add_(1)"),
        "outputs differ",
        STALE,  # lazy sync would stumble over the wrong positions first
    ),
    Fault(
        "new_seq_lens is missing", "v2", by(V2, "        new_seq_lens=new_lens,\n", ""), "TypeError.*NoneType"
    ),
    Fault("topk_p is missing", "v2", by(V2, "deferred=pending", "deferred=False"), "TypeError.*NoneType"),
    Fault(
        "flat logprobs",
        "v2",
        by(
            V2,
            "output.next_token_logprobs.unsqueeze(\n            1\n        )",
            "output.next_token_logprobs",
        ),
        r"TypeError: object of type 'float' has no len\(\)",
    ),
    Fault(
        "the wrong slot",
        "v2",
        by(
            V2,
            "inputs_of(bonus, table, batch.req_pool_indices, batch.seq_lens)",
            "inputs_of(bonus, table, batch.req_pool_indices, batch.seq_lens + 1)",
        ),
        "outputs differ",
    ),
    Fault(
        "spec_info stays on the plain step",
        "v2",
        by(V2, "        spec_info=None,  # draft", "        # draft"),
        "plain_step_has_no_spec_info",
    ),
    Fault(
        "lengths are foretold one too far",
        "v2",
        by("plain_draft_input", "self.next_seq_lens = on_device + 1", "self.next_seq_lens = on_device + 2"),
        "step_launched_at_the_committed_length",
    ),
    Fault(
        "the deferred draft state is not fetched",
        "v2",
        by(WORKERS, "batch.spec_info.materialise(batch)", "pass"),
        "TypeError.*NoneType",
    ),
    Fault(
        "the mode of a late result is read from the worker",
        "v2",
        by(
            HOOKS,
            "info = getattr(result, STEP_INFO, None)",
            "info = StepInfo(scheduler.model_worker.switch.mode)",
        ),
        "committed_is_tokens_minus_bonus|catching_up_begins_at_the_prompts_end_or_later",
        rule=LARGE,
    ),
    Fault(
        "the mode of a late result is read from the worker, engine alone",
        "v2",
        by(
            HOOKS,
            "info = getattr(result, STEP_INFO, None)",
            "info = StepInfo(scheduler.model_worker.switch.mode)",
        ),
        "outputs differ|Mem Leak",
        UNCHECKED,
        rule=LARGE,
    ),
]


def on_both(path: str) -> list[Fault]:
    """Faults in what the two paths share. Where a draft state was never made, v2 drafts from what lay in memory."""
    note = "                setattr(req, DRAFT_LEN, n)\n\n    def starts"
    return [
        Fault(
            "an interval without a verify is not guarded",
            path,
            by(
                HOOKS,
                "if scheduler.spec_algorithm.is_none() or scheduler.spec_num_forward_ct > 0:",
                "if True:",
            ),
            "ZeroDivisionError",
        ),
        Fault(
            "plain steps enter the engine's accept length",
            path,
            by(HOOKS, "if current is None or current.mode is Mode.SPECULATIVE:", "if True:"),
            "plain steps in the engine's accept length",
        ),
        Fault(
            "pending tokens are forgotten",
            path,
            by(SYNC, note, note.replace("setattr(req, DRAFT_LEN, n)", "pass")),
            "draft rows differ|IndexError",
        ),
        Fault(
            "the first pending token is forgotten",
            path,
            by(SYNC, note, note.replace("DRAFT_LEN, n)", "DRAFT_LEN, n + 1)")),
            "draft rows differ",
        ),
        Fault(
            "the window overflows",
            path,
            by(SYNC, "n - start >= self.window", "n - start > self.window"),
            "pending_tokens_fit_the_window",
        ),
        Fault(
            "the window overflows, without the checker",
            path,
            by(SYNC, "n - start >= self.window", "n - start > self.window"),
            "draft rows differ",
            UNCHECKED,
        ),
        Fault(
            "hidden states of the wrong column",
            path,
            by(
                SYNC,
                "hidden_states=self.hidden[slots, column],",
                "hidden_states=self.hidden[slots, (column + 1) % self.window],",
            ),
            "draft rows differ",
        ),
        Fault(
            "the draft reads this token instead of the next",
            path,
            by(
                SYNC,
                "input_ids=self.tokens[slots, column]",
                "input_ids=self.tokens[slots, (column - 1) % self.window]",
            ),
            "draft rows differ|IndexError",
        ),
        Fault(
            "pending tokens enter the prefix cache",
            path,
            by(HOOKS, "return length if valid is None else min(length, valid)", "return length"),
            "draft rows differ",
        ),
        Fault(
            "prompts prefilled off get no draft rows",
            path,
            by(
                ROWS,
                "pool.set_kv_buffer(layer, forward_batch.out_cache_loc, k, v, layer.k_scale, layer.v_scale)",
                "pass",
            ),
            "draft rows differ",
        ),
        Fault(
            "a prompt's last position does not read its next token",
            path,
            by(ROWS, "input_ids[of_end] = next_tokens.to(input_ids.dtype)", "pass"),
            "draft rows differ",
        ),
        Fault(
            "a prompt's cached row is given back with the pending ones",
            path,
            by(SYNC, "max(start, getattr(req, PROMPT_LEN, 0))", "start"),
            "Mem Leak|pool_adds_up|committed_slots|memory|draft rows differ",
        ),
        Fault(
            "a full window's rows are not written",
            path,
            by(WORKERS, "return self.kv_rows.write_pending(batch, lens, pending, self.sync)", WRITES_NOTHING),
            "draft rows differ",
        ),
        Fault(
            "no catch-up when speculation resumes",
            path,
            by(
                WORKERS,
                "(self.sync.must_catch_up(batch.reqs, lens) or mode is Mode.SPECULATIVE)",
                "self.sync.must_catch_up(batch.reqs, lens)",
            ),
            "speculative_step_has_nothing_pending",
        ),
        Fault(
            "a shortened catching up leaves a hole",
            path,
            SMALL_PASSES + by(ROWS, "[n - 1 for n in lens]", "[n - 2 for n in lens]"),
            "draft rows differ",
        ),
        Fault(
            "a shortened catching up takes the tokens for written that it is left with",
            path,
            SMALL_PASSES + by(SYNC, "setattr(req, DRAFT_LEN, n - 1)", "setattr(req, DRAFT_LEN, n)"),
            "draft rows differ|Error",
        ),
        Fault(
            "a retracted request's pending tokens are kept",
            path,
            by(
                SYNC,
                "        for req in reqs:\n            setattr(req, DRAFT_LEN, None)",
                "        for req in reqs:\n"
                "            setattr(req, DRAFT_LEN, draft_len(req) if req.retraction_count else None)",
            ),
            "speculative_step_has_nothing_pending|pending_tokens_fit|draft rows differ|IndexError",
            retract=True,
        ),
    ]


FAULTS = [*ON_V1, *ON_V2, *on_both("v1"), *on_both("v2")]
IN_THE_FULL_RUN_ONLY = re.compile(
    "engine alone|without the checker|wrong column|this token|pending tokens are forgotten|v1: the first|lengths on the"
    "|v1: the window|v1: a retracted|v1: pending tokens enter|v1: an interval|v1: plain steps|v1: no catch-up"
    "|kv_allocated|foretold|other rows|written at|the wrong slot|not fetched|v1: a shortened"
)
