"""Two tensor-parallel ranks on the CPU (gloo): both report, and decide the same.

The engine wants to be told which cores each rank may use where there are more ranks than memory nodes.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import httpx
import pytest

from engine.features.arms import Client, Pair, plain_server, prompt
from specswitch.config import Rule, ServerConfig
from specswitch.serving.launch import Server, launch

ENVIRONMENT = {"SGLANG_CPU_OMP_THREADS_BIND": "0|1"}
AGREED = (
    *("threshold", "sync", "lazy_window", "mode", "switches"),
    *("plain_steps", "speculative_steps", "proposed", "accepted"),
)
REQUESTS = 8


def load(client: Client) -> None:
    for i in range(REQUESTS):
        client.submit(f"p{i}", prompt(i, 5 + i), {"max_new_tokens": 24 + 4 * i, "ignore_eos": True})


async def run_load(server: Server) -> list[list[int]]:
    async with httpx.AsyncClient(base_url=server.url, timeout=300, trust_env=False) as client:

        async def one(i: int) -> list[int]:
            sampling = {"temperature": 0, "max_new_tokens": 24 + 4 * i, "ignore_eos": True}
            body = {"input_ids": prompt(i, 5 + i), "sampling_params": sampling}
            return (await client.post("/generate", json=body)).json()["output_ids"]

        return await asyncio.gather(*(one(i) for i in range(REQUESTS)))


def agreed(server: Server) -> dict[str, Any]:
    """What both ranks say; fails where they differ."""
    first, second = server.state()["ranks"]
    assert (first["tp_rank"], second["tp_rank"]) == (0, 1)
    assert first["pid"] != second["pid"]
    assert {k: first[k] for k in AGREED} == {k: second[k] for k in AGREED}
    return first


@pytest.mark.slow
@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="each rank is bound to a core of its own")
@pytest.mark.parametrize("path", ["v1", "v2"])
def test_two_ranks_report_and_agree_across_switches(path: str, pair: Pair, tmp_path: Path) -> None:
    plain = plain_server(pair, load)
    cfg = ServerConfig(
        model=str(pair[0]),
        draft=str(pair[1]),
        path=path,
        rule=Rule(threshold=3, lazy_window=8),
        tp=2,
        max_total_tokens=4096,
        max_running_requests=16,
        check=True,
        env=ENVIRONMENT,
        ready_timeout_s=500,
    )
    with launch(cfg, tmp_path / "server.log") as server:
        log = (tmp_path / "server.log").read_text(encoding="utf-8", errors="replace")
        for rank in (0, 1):
            assert f"threshold=3 path={path} sync=lazy tp_rank={rank}" in log
        outputs = asyncio.run(run_load(server))
        assert outputs == [plain.ids[f"p{i}"] for i in range(REQUESTS)]
        crossed = agreed(server)
        assert crossed["switches"] >= 2
        assert min(crossed["plain_steps"], crossed["speculative_steps"]) > 5
        server.set_rule(threshold=0, sync="eager")
        assert asyncio.run(run_load(server)) == outputs
        off = agreed(server)
        assert (off["threshold"], off["sync"]) == (0, "eager")
        assert off["speculative_steps"] == crossed["speculative_steps"]
        server.flush()
