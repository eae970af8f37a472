"""One real server under its HTTP interface: control, state, metrics, disconnects, bad requests."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import json
import random
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from engine.cpu.random_pair import VOCAB
from engine.features.arms import STRICT, Client, Outcome, Pair, plain_server, prompt
from engine.features.test_control import CONTRACT
from specswitch.config import Rule, ServerConfig
from specswitch.serving.launch import Server, launch

THRESHOLD, CONTEXT, PROMPTS = 4, 1024, 12
# Tokens of a stream that must outlast the two seconds after which the engine aborts a request that nobody reads.
STREAM = 900
CHANGES_S, PERIOD_S = 10.0, 0.1


def reference_load(client: Client) -> None:
    for i in range(PROMPTS):
        client.submit(f"p{i}", prompt(i, 5 + 3 * i), {"max_new_tokens": 30 + i, "ignore_eos": True})
    client.submit("stream", prompt(50, 9), {"max_new_tokens": STREAM, "ignore_eos": True})


@pytest.fixture(scope="module")
def plain(pair: Pair) -> Outcome:
    return plain_server(pair, reference_load, context_length=CONTEXT)


@pytest.fixture(scope="module", params=["v2", pytest.param("v1", marks=pytest.mark.slow)])
def server(
    request: pytest.FixtureRequest, pair: Pair, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    cfg = ServerConfig(
        model=str(pair[0]),
        draft=str(pair[1]),
        path=request.param,
        rule=Rule(threshold=THRESHOLD, lazy_window=16),
        context_length=CONTEXT,
        max_total_tokens=8192,
        check=True,
        extra_args=("--enable-metrics", "--decode-log-interval", "5"),
        env=STRICT,
        ready_timeout_s=500,
    )
    with launch(cfg, tmp_path_factory.mktemp("http") / "server.log") as running:
        yield running


@pytest.fixture(autouse=True)
def whole(server: Server) -> Iterator[None]:
    """Every test starts with the first rule and leaves an idle server without a leak."""
    server.set_rule(threshold=THRESHOLD, dwell=1, sync="lazy")
    yield
    server.flush()
    assert server.log_path is not None
    log = server.log_path.read_text(encoding="utf-8", errors="replace")
    assert "leak" not in log
    assert "Traceback" not in log


def body_of(ids: list[int], tokens: int, **more: Any) -> dict[str, Any]:
    sampling = {"temperature": 0, "max_new_tokens": tokens, "ignore_eos": True}
    return {"input_ids": ids, "sampling_params": sampling} | more


async def generate(client: httpx.AsyncClient, i: int) -> list[int]:
    answer = await client.post("/generate", json=body_of(prompt(i, 5 + 3 * i), 30 + i))
    assert answer.status_code == 200, answer.text
    return answer.json()["output_ids"]


@contextlib.asynccontextmanager
async def stream(client: httpx.AsyncClient, body: dict[str, Any]) -> Any:
    """An async iterator over the chunks of a streamed request; leaving the context drops the connection."""

    async def chunks(response: httpx.Response) -> Any:
        async for line in response.aiter_lines():
            if line.startswith("data: {"):
                yield json.loads(line.removeprefix("data: "))

    async with client.stream("POST", "/generate", json=body | {"stream": True}) as response:
        assert response.status_code == 200
        yield chunks(response)


def client_of(server: Server) -> httpx.AsyncClient:
    limits = httpx.Limits(max_connections=None)
    return httpx.AsyncClient(base_url=server.url, timeout=200, limits=limits, trust_env=False)


def test_the_state_is_complete_and_in_the_log(server: Server) -> None:
    state = server.state()
    path = state["path"]
    assert set(state) >= CONTRACT
    assert state["worker_class"] == {"v1": "DynamicEAGLEWorker", "v2": "DynamicEAGLEWorkerV2"}[path]
    assert state["nonce"] == server.identity["nonce"]
    assert server.log_path is not None
    log = server.log_path.read_text(encoding="utf-8", errors="replace")
    wanted = f"Dynamic speculation disable enabled: threshold={THRESHOLD} path={path} sync=lazy tp_rank=0"
    assert log.count(wanted) == 1


async def test_ten_changes_a_second_leave_every_output_as_it_was(server: Server, plain: Outcome) -> None:
    before, rng, outputs = server.state(), random.Random(3), []
    end = time.monotonic() + CHANGES_S

    async def user(client: httpx.AsyncClient, first: int) -> None:
        for i in itertools.count(first):
            if time.monotonic() > end:
                return
            outputs.append((i % PROMPTS, await generate(client, i % PROMPTS)))

    async def operator(client: httpx.AsyncClient) -> int:
        begun = time.monotonic()
        for n in itertools.count():
            if time.monotonic() > end:
                return n
            changes = {
                "threshold": rng.choice([0, 2, 4, 6, None]),
                "sync": rng.choice(["lazy", "eager", "stale"]),
                "dwell": rng.choice([1, 3]),
            }
            answer = await client.post("/set_internal_state", json={"server_args": {"specswitch": changes}})
            assert answer.json() == [True], changes
            await asyncio.sleep(max(0.0, begun + (n + 1) * PERIOD_S - time.monotonic()))
        raise AssertionError

    async with client_of(server) as client:
        changes, *_ = await asyncio.gather(operator(client), *(user(client, 2 * i) for i in range(6)))
    assert changes > CHANGES_S / PERIOD_S / 4, "the machine was too slow to say anything"
    assert len(outputs) > PROMPTS
    assert all(ids == plain.ids[f"p{i}"] for i, ids in outputs)
    after = server.state()
    assert after["switches"] > before["switches"] + 5
    assert after["speculative_steps"] > before["speculative_steps"]


def test_a_refused_change_is_answered_and_explained(server: Server) -> None:
    bad = {"server_args": {"specswitch": {"threshold": 4, "enable_threshold": 7}}}
    before = server.state()
    answer = httpx.post(f"{server.url}/set_internal_state", json=bad, trust_env=False)
    assert (answer.status_code, answer.json()) == (200, [False])
    after = server.state()
    assert "enable_threshold=7 > threshold=4" in after["last_refusal"]
    assert (after["threshold"], after["enable_threshold"]) == (before["threshold"], None)


async def test_dropped_connections_free_the_batch_and_speculation_returns(
    server: Server, plain: Outcome
) -> None:
    """Field case A11."""
    body = body_of(prompt(50, 9), STREAM)
    async with client_of(server) as client:

        async def read(leave_after: int | None) -> list[int]:
            ids: list[int] = []
            async with stream(client, body) as chunks:
                async for chunk in chunks:
                    ids = chunk["output_ids"]
                    if leave_after is not None and len(ids) >= leave_after:
                        break
            return ids

        stayers = [asyncio.create_task(read(None)) for _ in range(2)]
        await asyncio.gather(*(read(20) for _ in range(4)))
        end = time.monotonic() + 10
        state: dict[str, Any] = {}
        while time.monotonic() < end and not all(t.done() for t in stayers):
            state = await asyncio.to_thread(server.state)
            if (state["running_batch"], state["mode"]) == (2, "speculative"):
                break
            await asyncio.sleep(0.1)
        assert (state["running_batch"], state["mode"]) == (2, "speculative")
        for ids in await asyncio.gather(*stayers):
            assert ids == plain.ids["stream"]


async def test_bad_requests_get_an_error_and_harm_nobody(server: Server, plain: Outcome) -> None:
    """Field cases A20, A21."""
    async with client_of(server) as client:

        async def whole_stream() -> list[int]:
            async with stream(client, body_of(prompt(50, 9), STREAM)) as chunks:
                return [chunk["output_ids"] async for chunk in chunks][-1]

        streams = [asyncio.create_task(whole_stream()) for _ in range(3)]
        await asyncio.sleep(0.3)
        for bad in (
            {"text": "", "sampling_params": {"max_new_tokens": 4}},
            body_of([], 4),
            body_of(prompt(3, CONTEXT + 88), 64),
        ):
            answer = await client.post("/generate", json=bad)
            assert 400 <= answer.status_code < 500, answer.text
        one = await client.post("/generate", json=body_of([7], 5))
        assert len(one.json()["output_ids"]) == 5
        many = body_of([[7], prompt(60, 300)], 6)  # type: ignore[arg-type]
        both = await client.post("/generate", json=many)
        assert [len(a["output_ids"]) for a in both.json()] == [6, 6]
        assert await asyncio.gather(*streams) == [plain.ids["stream"]] * 3
        await asyncio.sleep(1.0)
        assert await generate(client, 3) == plain.ids["p3"]


@pytest.mark.parametrize("threshold", [0, None])
def test_logprobs_come_out_as_json(server: Server, threshold: int | None) -> None:
    """Field case A14, to the end of the line; plain and speculative."""
    server.set_rule(threshold=threshold)
    more = {"return_logprob": True, "top_logprobs_num": 2, "token_ids_logprob": [5, 77]}
    answer = httpx.post(
        f"{server.url}/generate", json=body_of(prompt(1, 8), 20, **more), timeout=100, trust_env=False
    ).json()
    meta = answer["meta_info"]
    assert [token for _, token, _ in meta["output_token_logprobs"]] == answer["output_ids"]
    assert all(logprob <= 0 for logprob, _, _ in meta["output_token_logprobs"])
    assert [len(row) for row in meta["output_top_logprobs"]] == [2] * 20
    assert [[t for _, t, _ in row] for row in meta["output_token_ids_logprobs"]] == [[5, 77]] * 20
    assert ("spec_accept_length" in meta) == (threshold is None)


@pytest.mark.parametrize("threshold", [0, None])
def test_logprobs_of_a_prompt_are_those_it_had_as_output(server: Server, threshold: int | None) -> None:
    """The same text, once generated and once given; a new prefill of it goes through either mode's server."""
    server.set_rule(threshold=threshold)

    def ask(ids: list[int], tokens: int, **more: Any) -> dict[str, Any]:
        body = body_of(ids, tokens, return_logprob=True, **more)
        answer = httpx.post(f"{server.url}/generate", json=body, timeout=100, trust_env=False)
        assert answer.status_code == 200, answer.text
        return answer.json()

    given = prompt(2, 20)
    first = ask(given, 16)
    second = ask([*given, *first["output_ids"]], 4, logprob_start_len=len(given) - 1)
    said = [(token, logprob) for logprob, token, _ in first["meta_info"]["output_token_logprobs"]]
    read = [(token, logprob) for logprob, token, _ in second["meta_info"]["input_token_logprobs"]][1:]
    # The engine shows the last id of the vocabulary, in a prompt, as id 0.
    told = [(a, b) for a, b in zip(said, read, strict=True) if a[0] != VOCAB - 1]
    assert len(told) >= 10
    assert [b[0] for _, b in told] == [a[0] for a, _ in told]
    assert [b[1] for _, b in told] == pytest.approx([a[1] for a, _ in told], abs=1e-4)
    assert len(second["output_ids"]) == 4


def test_a_batch_table_takes_the_thresholds_place_and_gives_it_back(server: Server) -> None:
    before = server.set_rule(ranges=[[2, 3]])
    assert (before["ranges"], before["threshold"], before["enable_threshold"]) == ([[2, 3]], None, None)
    httpx.post(f"{server.url}/generate", json=body_of(prompt(4, 8), 20), timeout=100, trust_env=False)
    alone = server.state()
    assert alone["plain_steps"] - before["plain_steps"] >= 19, "one request is outside the table"
    two = body_of([prompt(4, 8), prompt(5, 8)], 20)  # type: ignore[arg-type]
    httpx.post(f"{server.url}/generate", json=two, timeout=100, trust_env=False)
    assert server.state()["speculative_steps"] > alone["speculative_steps"]
    after = server.set_rule(threshold=THRESHOLD)
    assert (after["ranges"], after["threshold"]) == (None, THRESHOLD)


def samples(server: Server) -> dict[tuple[str, str | None], float]:
    """Value of every specswitch sample by (name, mode or kind)."""
    text = httpx.get(f"{server.url}/metrics", follow_redirects=True, timeout=60, trust_env=False).text
    families = text_string_to_metric_families(text)
    return {
        (s.name, s.labels.get("mode") or s.labels.get("kind")): s.value
        for family in families
        for s in family.samples
        if s.name.startswith("specswitch_") and not s.name.endswith("_created")
    }


async def test_metrics_show_the_switch_beside_the_engines_own(server: Server) -> None:
    server.set_rule(threshold=2, sync="lazy")
    async with client_of(server) as client:
        await asyncio.gather(*(generate(client, i) for i in range(6)))
        await generate(client, 1)
    state = server.state()
    counted = functools.partial(samples, server)
    end = time.monotonic() + 20
    while time.monotonic() < end and counted().get(("specswitch_running_batch", None)) != 0:
        await asyncio.sleep(0.5)
    found = counted()
    assert found[("specswitch_threshold", None)] == 2
    assert found[("specswitch_mode", None)] in (0, 1)
    assert found[("specswitch_steps_total", "plain")] == state["plain_steps"] > 0
    assert found[("specswitch_steps_total", "speculative")] == state["speculative_steps"] > 0
    assert found[("specswitch_switches_total", None)] == state["switches"] > 0
    assert found[("specswitch_draft_tokens_total", "proposed")] == state["proposed"]
    assert found[("specswitch_draft_tokens_total", "accepted")] == state["accepted"]
    assert found[("specswitch_synced_tokens_total", None)] == state["synced_tokens"] > 0
    text = httpx.get(f"{server.url}/metrics", follow_redirects=True, timeout=60, trust_env=False).text
    assert "sglang:num_running_reqs" in text


def test_a_log_interval_without_any_verify_is_survived(server: Server) -> None:
    """The engine divides by the number of verify steps of an interval."""
    server.set_rule(threshold=0)
    answer = httpx.post(
        f"{server.url}/generate", json=body_of(prompt(2, 8), 60), timeout=100, trust_env=False
    )
    assert len(answer.json()["output_ids"]) == 60
    assert server.exit_code is None
    assert server.log_path is not None
    assert "accept len: nan" in server.log_path.read_text(encoding="utf-8", errors="replace")
