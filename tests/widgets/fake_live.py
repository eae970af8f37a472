"""A server to play with: decides with the real rule, counts like the real engine, and dies on request.

    python tests/widgets/fake_live.py --port 0 [SGLang flags]

It can be launched in place of the engine (`fake_engines` in `conftest.py`) or attached to; then it prints
`port=N`. FAKE_ENGINE as in `sweep.fake_engine.Tricks`. A dwell of 13 is refused. POST /die: exit code 3.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import signal
import sys
from pathlib import Path

import orjson
from aiohttp import web

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # `fakes` and `sweep`, when run as a program

from fakes.fake_server import serving
from specswitch.engine.policy import Mode, Rule, Switch
from specswitch.models import pair
from sweep.fake_engine import FakeEngine, Tricks, _parse

UNLUCKY_DWELL = 13
# Drafts accepted per request and verify step.
ACCEPTED = int(os.environ.get("FAKE_ACCEPTED", "1"))


class FakeLive(FakeEngine):
    """The fake engine with a switch, an engine's counters, and a rule that follows `/set_internal_state`."""

    def __init__(self) -> None:
        flags = _parse()
        super().__init__(flags, Tricks(**orjson.loads(os.environ.get("FAKE_ENGINE", "{}"))))
        self.switch = Switch(Rule(threshold=flags.threshold))
        self.state |= dict.fromkeys(("plain_tokens", "speculative_tokens", "proposed", "accepted"), 0)
        self.state |= {"running_batch": 0, "ranges": None, "last_refusal": None, "switches": 0}

    def app(self) -> web.Application:
        app = super().app()
        app.router.add_post("/die", self.die)
        return app

    async def die(self, _: web.Request) -> web.Response:
        print("the engine ran out of luck", flush=True)  # noqa: T201
        os._exit(3)

    async def server_info(self, request: web.Request) -> web.Response:
        self.state["running_batch"] = self.stats.in_flight
        answer = orjson.loads((await super().server_info(request)).body)
        return web.json_response({**answer, "model_path": str(pair.target_dir()), "max_running_requests": 32})

    async def set_internal_state(self, request: web.Request) -> web.Response:
        changes = orjson.loads(await request.read())["server_args"]["specswitch"]
        if changes.get("dwell") == UNLUCKY_DWELL:
            self.state["last_refusal"] = "thirteen steps bring bad luck"
            return web.json_response([False])
        rule = self.switch.rule.changed(**{k: v for k, v in changes.items() if k != "sync"})
        self.switch.set_rule(rule)
        self.state.update(dataclasses.asdict(rule) | {"sync": changes.get("sync", self.state["sync"])})
        return web.json_response([True])

    def _step(self, batch: int) -> None:
        state = self.state
        mode = Mode.PLAIN if state["path"] == "none" else self.switch.step(batch)[0]
        if state["dynamic"]:
            state["mode"], state["switches"] = mode.value, self.switch.switches
        if mode is Mode.PLAIN:
            state["plain_steps"] += 1
            state["plain_tokens"] += batch
        else:
            state["speculative_steps"] += 1
            state["proposed"] += 3 * batch
            state["accepted"] += ACCEPTED * batch
            state["speculative_tokens"] += (1 + ACCEPTED) * batch


async def _main() -> None:
    engine = FakeLive()
    await asyncio.sleep(engine.tricks.sloth_s)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with serving(engine, _parse().port) as url:
        print(f"port={url.rsplit(':', 1)[1]}", flush=True)  # noqa: T201
        steps = asyncio.create_task(engine.step_forever())
        await stop.wait()
        steps.cancel()


if __name__ == "__main__":
    asyncio.run(_main())
