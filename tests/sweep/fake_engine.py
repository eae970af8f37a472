"""A server program that takes SGLang's flags and behaves like one of our patched servers, without an engine.

    python tests/sweep/fake_engine.py --port N [any SGLang flags]

The real launcher starts it in place of the engine (`fake_engines` in `conftest.py`), so that process handling,
readiness, identity, the step log and the rule are exercised as they are. How it behaves otherwise comes as JSON
in the variable FAKE_ENGINE, see `Tricks`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import struct
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from aiohttp import web

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # `fakes`, as this runs as a program

import specswitch
from fakes.fake_server import Behaviour, FakeServer, serving
from specswitch.results.steps_file import MAGIC, step_log

RECORD = struct.Struct("<d8id")
STEP_S = 0.004


@dataclass
class Tricks:
    """What this server does besides serving well.

    `worker_class`, `path`: reported instead of the truth. `noise_lines`: lines printed to each of both streams
    at the start. `helper`: starts a child in a session of its own (its pid goes to the log). `die_in_point`,
    `fail_in_point`: in its n-th measured point the server exits with code 3, or answers HTTP 500.
    `silent_steps`: counts steps without logging them. `sloth_s`: delay before it listens. `kept_kib`: memory that
    it never gives back, per request. `die_after`, `tokens_left`: see `Behaviour`.
    """

    worker_class: str | None = None
    path: str | None = None
    noise_lines: int = 0
    helper: bool = False
    die_in_point: int | None = None
    fail_in_point: int | None = None
    silent_steps: bool = False
    sloth_s: float = 0.0
    kept_kib: int = 0
    die_after: int | None = None
    tokens_left: int = 0


class FakeEngine(FakeServer):
    """The scripted server with the report, the rule and the step log of a patched one."""

    def __init__(self, flags: argparse.Namespace, tricks: Tricks) -> None:
        limits = {"die_after": tricks.die_after, "tokens_left": tricks.tokens_left}
        super().__init__(Behaviour(ttft_ms=4, itl_ms=2, tokens_per_chunk=4, **limits))
        self.tricks = tricks
        self.behaviour.api_key = flags.api_key
        self.state = _state(flags, tricks)
        self.behaviour.info = self.state
        self._kept: list[bytes] = []
        self._log = None
        steps_dir = os.environ.get("SPECSWITCH_STEPS_DIR")
        if steps_dir and not tricks.silent_steps:
            self._log = open(step_log(Path(steps_dir)), "ab", buffering=0)  # noqa: SIM115
            self._log.write(MAGIC)

    def app(self) -> web.Application:
        app = super().app()
        app.router.add_post("/set_internal_state", self.set_internal_state)
        return app

    async def set_internal_state(self, request: web.Request) -> web.Response:
        changes = orjson.loads(await request.read())["server_args"]["specswitch"]
        self.state.update(changes)
        return web.json_response([True])

    async def generate(self, request: web.Request) -> web.StreamResponse:
        # Every point begins with a flush; one that was refused is asked for again.
        point = sum(kind == "flush" and done for kind, done in self.stats.events)
        if point == self.tricks.die_in_point:
            print("scripted death", flush=True)  # noqa: T201
            os._exit(3)
        if point == self.tricks.fail_in_point:
            return web.Response(status=500, text="scripted failure")
        self._kept.append(os.urandom(1024 * self.tricks.kept_kib))
        return await super().generate(request)

    async def step_forever(self) -> None:
        """One decode step every few milliseconds while requests run."""
        while True:
            await asyncio.sleep(STEP_S)
            if self.stats.in_flight:
                self._step(self.stats.in_flight)

    def _step(self, batch: int) -> None:
        state, threshold = self.state, self.state["threshold"]
        speculative = state["path"] != "none" and (threshold is None or batch <= threshold)
        switched = state["mode"] != ("speculative" if speculative else "plain")
        state["mode"] = "speculative" if speculative else "plain"
        state["speculative_steps" if speculative else "plain_steps"] += 1
        state["switches"] += switched
        accepted = batch if speculative else 0
        if self._log is not None:
            row = (batch, int(speculative), 3 * accepted, accepted, batch + accepted, 0, int(switched), 0)
            self._log.write(RECORD.pack(time.monotonic(), *row, step_ms(batch, speculative)))


def step_ms(batch: int, speculative: bool) -> float:
    """What the log says a step took: the more requests, the dearer is speculation, of accept length 2."""
    return 1000 * STEP_S * (1 + batch / 4 if speculative else 1)


def _state(flags: argparse.Namespace, tricks: Tricks) -> dict[str, Any]:
    speculative = flags.speculative_algorithm is not None
    overlap = not flags.disable_overlap_schedule and (flags.topk or 1) == 1
    path = ("v2" if overlap else "v1") if speculative else "none"
    stock = {"none": "TpModelWorker", "v1": "EAGLEWorker", "v2": "EAGLEWorkerV2"}[path]
    dynamic = flags.threshold is not None
    return {
        "version": specswitch.__version__,
        "nonce": os.environ.get("SPECSWITCH_NONCE"),
        "pid": os.getpid(),
        "tp_rank": 0,
        "path": tricks.path or path,
        "worker_class": tricks.worker_class or (f"Dynamic{stock}" if dynamic else stock),
        "stock_class": stock,
        "overlap": overlap,
        "topk": flags.topk,
        "num_draft_tokens": flags.draft_tokens,
        "spec_v2_env": os.environ.get("SGLANG_ENABLE_SPEC_V2"),
        "dynamic": dynamic,
        "threshold": flags.threshold,
        "enable_threshold": None,
        "dwell": 1,
        "ranges": None,
        "sync": "lazy" if dynamic else None,
        "mode": "speculative" if speculative else "plain",
        "plain_steps": 0,
        "speculative_steps": 0,
        "switches": 0,
    }


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--api-key")
    parser.add_argument("--speculative-algorithm")
    parser.add_argument("--disable-overlap-schedule", action="store_true")
    parser.add_argument("--speculative-eagle-topk", dest="topk", type=int)
    parser.add_argument("--speculative-num-draft-tokens", dest="draft_tokens", type=int)
    parser.add_argument("--speculative-disable-batch-threshold", dest="threshold", type=int)
    return parser.parse_known_args()[0]


async def _main() -> None:
    tricks = Tricks(**orjson.loads(os.environ.get("FAKE_ENGINE", "{}")))
    tempfile.mkstemp()  # the engine leaves several, for the names of its sockets
    for i in range(tricks.noise_lines):
        line = f"line {i:08d} {'x' * 180}\n"
        sys.stdout.write(line)
        sys.stderr.write(line)
    if tricks.helper:
        child = subprocess.Popen(["sleep", "600"], start_new_session=True)
        print(f"helper={child.pid}", flush=True)  # noqa: T201
    await asyncio.sleep(tricks.sloth_s)
    flags = _parse()
    if flags.api_key is not None:  # the engine writes its whole command line into its log
        print(f"server_args={flags}", flush=True)  # noqa: T201
    engine = FakeEngine(flags, tricks)
    async with serving(engine, flags.port):
        await engine.step_forever()


if __name__ == "__main__":
    asyncio.run(_main())
