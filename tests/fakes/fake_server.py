"""A scripted stand-in for an SGLang server, in this process or in its own.

    python tests/fakes/fake_server.py --port 0 --itl-ms 5 --tokens-per-chunk 2
    python tests/fakes/fake_server.py --script script.json      # [[delay_ms, n_tokens, text, kind], ...]

Without a script it answers `max_new_tokens` tokens at the given pace. It prints `port=N` when it listens.
It keeps its own books, independent of any client: `GET /stats` gives the in-flight maximum, request and
token counts, and every `/generate`, `/flush_cache` and `/abort_request` in order. A prompt seen since the last flush counts as
cached in full. A request to flush while requests run is refused, as the engine does.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
from aiohttp import web

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # `fakes`, when run as a program

from fakes.script import DONE, Event, Step, aborted, build_events, parse_script, plain_script


@dataclass
class Behaviour:
    """What the server does. `info` is laid over the `specswitch` state in `/server_info`.

    `extra_prompt_tokens`: a server that counts the prompt differently than it was sent. `fragment`: each
    event leaves in two TCP writes. `die_after`: exit with code 3 on receiving this many requests. `api_key`: as
    with the engine's `--api-key`, everything but health wants it.
    `tokens_left`: KV slots that it says are in use.
    """

    script: tuple[Step, ...] | None = None
    ttft_ms: float = 5.0
    itl_ms: float = 1.0
    tokens_per_chunk: int = 1
    incremental: bool = False
    fragment: bool = False
    extra_prompt_tokens: int = 0
    die_after: int | None = None
    tokens_left: int = 0
    api_key: str | None = None
    info: dict[str, Any] = field(default_factory=dict)


@dataclass
class Stats:
    """The server's own books. `events`: ("generate", input_ids), ("flush", succeeded), ("abort", rid), in order.

    `sent_s`: when each event of a stream left, in order (monotonic seconds). `peers`: the client's port of each
    `/generate`: the same port means the same connection.
    """

    in_flight: int = 0
    in_flight_max: int = 0
    requests: int = 0
    tokens: int = 0
    events: list[tuple[str, Any]] = field(default_factory=list)
    sent_s: list[float] = field(default_factory=list)
    peers: list[int] = field(default_factory=list)


class FakeServer:
    """The request handlers; `app()` gives the aiohttp application."""

    def __init__(self, behaviour: Behaviour) -> None:
        self.behaviour = behaviour
        self.stats = Stats()
        self._seen: set[tuple[int, ...]] = set()
        self._events: dict[tuple[int, int, int], tuple[Event, ...]] = {}
        self._aborted: set[str] = set()

    def play(self, script: tuple[Step, ...] | None) -> None:
        """Answer requests that arrive from now on with this script; None: as they ask."""
        self.behaviour.script = script
        self._events.clear()

    def app(self) -> web.Application:
        app = web.Application(middlewares=[self.check_key])
        app.add_routes(
            [
                web.get("/health", self.health),
                web.get("/v1/models", self.models),
                web.get("/v1/loads", self.loads),
                web.get("/server_info", self.server_info),
                web.get("/stats", self.show_stats),
                web.route("*", "/flush_cache", self.flush_cache),
                web.post("/generate", self.generate),
                web.post("/abort_request", self.abort_request),
            ]
        )
        return app

    @property
    def check_key(self) -> Any:
        """Middleware: answers 401 to a request without the key."""

        @web.middleware
        async def check(request: web.Request, handler: Any) -> web.StreamResponse:
            key = self.behaviour.api_key
            told = request.headers.get("Authorization")
            if key is not None and told != f"Bearer {key}" and request.path not in ("/health", "/stats"):
                return web.json_response({"error": "Unauthorized"}, status=401)
            return await handler(request)

        return check

    async def health(self, _: web.Request) -> web.Response:
        return web.Response()

    async def models(self, _: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": "fake", "object": "model"}]})

    async def server_info(self, _: web.Request) -> web.Response:
        state = {
            "version": "fake",
            "path": "none",
            "worker_class": None,
            "threshold": None,
            "enable_threshold": None,
            "dwell": 1,
            "sync": None,
            "mode": "plain",
            "running_batch": self.stats.in_flight,
            "plain_steps": 0,
            "speculative_steps": 0,
            "switches": 0,
            "proposed": 0,
            "accepted": 0,
            "synced_tokens": 0,
            "accept_length": None,
        }
        state.update(self.behaviour.info)
        return web.json_response({"version": "fake", "internal_states": [{"specswitch": state}]})

    async def show_stats(self, _: web.Request) -> web.Response:
        return web.Response(body=orjson.dumps(self.stats), content_type="application/json")

    async def loads(self, _: web.Request) -> web.Response:
        running = self.stats.in_flight
        used = self.behaviour.tokens_left
        aggregate = {"total_running_reqs": running, "total_reqs": running, "total_used_tokens": used}
        return web.json_response({"aggregate": aggregate})

    async def abort_request(self, request: web.Request) -> web.Response:
        rid = orjson.loads(await request.read())["rid"]
        self._aborted.add(rid)
        self.stats.events.append(("abort", rid))
        return web.Response()

    async def flush_cache(self, request: web.Request) -> web.Response:
        until = time.monotonic() + float(request.query.get("timeout", 0))
        while self.stats.in_flight and time.monotonic() < until:
            await asyncio.sleep(0.005)
        idle = self.stats.in_flight == 0
        if idle:
            self._seen.clear()
        self.stats.events.append(("flush", idle))
        return web.Response(status=200 if idle else 400, text="flushed" if idle else "requests are running")

    async def generate(self, request: web.Request) -> web.StreamResponse:
        stats = self.stats
        arrived = time.monotonic()
        body = orjson.loads(await request.read())
        stats.requests += 1
        stats.peers.append(
            ((request.transport and request.transport.get_extra_info("peername")) or ("", 0))[1]
        )
        if self.behaviour.die_after is not None and stats.requests >= self.behaviour.die_after:
            os._exit(3)
        stats.in_flight += 1
        stats.in_flight_max = max(stats.in_flight_max, stats.in_flight)
        try:
            events = self._answer(body)
            if body.get("stream"):
                return await self._stream(request, events, arrived, body.get("rid"))
            return await self._whole(events, arrived)
        finally:
            stats.in_flight -= 1

    def _answer(self, body: dict[str, Any]) -> tuple[Event, ...]:
        """The events of this request; built once per length, so that a fast stream costs little."""
        b = self.behaviour
        ids = tuple(body.get("input_ids") or ())
        cached = len(ids) if ids in self._seen else 0
        self._seen.add(ids)
        self.stats.events.append(("generate", list(ids)))
        wanted = int(body.get("sampling_params", {}).get("max_new_tokens", 16))
        key = (len(ids), cached, wanted)
        if key not in self._events:
            script = b.script or plain_script(wanted, b.ttft_ms, b.itl_ms, b.tokens_per_chunk)
            self._events[key] = build_events(script, len(ids) + b.extra_prompt_tokens, cached, b.incremental)
        script_tokens = sum(s.n_tokens for s in b.script if s.kind == "chunk") if b.script else wanted
        self.stats.tokens += script_tokens
        return self._events[key]

    async def _stream(
        self, request: web.Request, events: tuple[Event, ...], arrived: float, rid: str | None
    ) -> web.StreamResponse:
        if events[0].kind == "refuse":
            return web.Response(status=503, text="scripted refusal")
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        due = arrived
        before = None
        for event in events:
            due += event.delay_ms / 1000
            if (wait := due - time.monotonic()) > 0:
                await asyncio.sleep(wait)
            if rid is not None and rid.startswith(tuple(self._aborted)):  # by prefix, as the engine
                await response.write(aborted(before))
                break
            before = event
            if event.kind == "cut":
                if request.transport is not None:
                    request.transport.abort()
                return response
            if event.kind == "end":
                return response
            self.stats.sent_s.append(time.monotonic())
            if self.behaviour.fragment:
                half = len(event.payload) // 2
                await response.write(event.payload[:half])
                await asyncio.sleep(0.001)
                await response.write(event.payload[half:])
            else:
                await response.write(event.payload)
            if event.kind == "error":
                break
        await response.write(DONE)
        return response

    async def _whole(self, events: tuple[Event, ...], arrived: float) -> web.Response:
        total = sum(e.delay_ms for e in events) / 1000
        await asyncio.sleep(max(0.0, arrived + total - time.monotonic()))
        last = events[-1]
        if last.kind not in ("chunk", "empty"):
            return web.Response(status=400, text=f"scripted {last.kind}")
        return web.Response(body=last.payload.removeprefix(b"data: "), content_type="application/json")


@asynccontextmanager
async def serving(server: FakeServer, port: int = 0) -> AsyncIterator[str]:
    """Serve in the running loop on loopback; yields the base URL."""
    runner = web.AppRunner(server.app(), handler_cancellation=True, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", port, backlog=4096)
        await site.start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@contextmanager
def server_process(*args: str, timeout_s: float = 60.0) -> Iterator[str]:
    """The server in a process of its own (command line arguments as in `--help`); yields the base URL."""
    command = [sys.executable, "-u", __file__, *args]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, encoding="utf-8") as process:
        try:
            line = process.stdout.readline() if process.stdout else ""
            if not line.startswith("port="):
                raise RuntimeError(f"the fake server did not start (exit {process.poll()})")
            yield f"http://127.0.0.1:{int(line.removeprefix('port='))}"
        finally:
            process.terminate()
            process.wait(timeout_s)


async def _main(behaviour: Behaviour, port: int) -> None:
    stop = asyncio.Event()
    for sig in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(sig, stop.set)
    async with serving(FakeServer(behaviour), port) as url:
        print(f"port={url.rsplit(':', 1)[1]}", flush=True)  # noqa: T201
        await stop.wait()


def _parse(argv: list[str]) -> tuple[Behaviour, int]:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--script", type=Path, help="JSON: [[delay_ms, n_tokens, text, kind], ...]")
    parser.add_argument("--ttft-ms", type=float, default=5.0)
    parser.add_argument("--itl-ms", type=float, default=1.0, help="per token")
    parser.add_argument("--tokens-per-chunk", type=int, default=1)
    parser.add_argument("--incremental", action="store_true")
    parser.add_argument("--fragment", action="store_true")
    parser.add_argument("--extra-prompt-tokens", type=int, default=0)
    parser.add_argument("--die-after", type=int)
    parser.add_argument("--api-key")
    parser.add_argument("--info", type=orjson.loads, default={}, help="JSON laid over the specswitch state")
    ns = vars(parser.parse_args(argv))
    port, script = ns.pop("port"), ns.pop("script")
    if script is not None:
        script = parse_script(script.read_text(encoding="utf-8"))
    return Behaviour(script=script, **ns), port


if __name__ == "__main__":
    asyncio.run(_main(*_parse(sys.argv[1:])))
