"""A program to launch in place of the engine: takes its flags, answers like it, and can misbehave.

    python tests/serving/fake_child.py --port 20001 ... [SGLang flags]

It reports the identity that an honest patched engine would, with `FAKE_STATE` (JSON) laid over it. `FAKE_STOCK=1`:
no Specswitch in its state. `FAKE_READY_AFTER_S`: /health answers 503 until then. `FAKE_GRANDCHILD=FILE`: starts a
helper in a session of its own that ignores SIGTERM, and writes its pid to FILE.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from aiohttp import web

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # `fakes`, when run as a program

from fakes.fake_server import Behaviour, FakeServer, serving
from specswitch import __version__
from specswitch.engine.policy import Rule, RuleError, parse_ranges
from specswitch.serving.flags import parse_flags, ranges_of
from specswitch.serving.path_rules import decide

STUBBORN_HELPER = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"


def honest_state(argv: list[str]) -> dict[str, Any]:
    """What a patched engine with these flags would say about itself in this environment."""
    flags = parse_flags(argv)
    decision, ranges = decide(flags, os.environ), ranges_of(flags)
    return {
        "version": __version__,
        "nonce": os.environ.get("SPECSWITCH_NONCE"),
        "pid": os.getpid(),
        "tp_rank": 0,
        "path": decision.path,
        "worker_class": decision.worker_class,
        "overlap": decision.overlap,
        "topk": decision.topk,
        "num_draft_tokens": decision.num_draft_tokens,
        "dynamic": flags.dynamic,
        "threshold": flags.speculative_disable_batch_threshold,
        "enable_threshold": flags.speculative_enable_batch_threshold,
        "dwell": flags.speculative_switch_dwell,
        "ranges": None if ranges is None else [list(r) for r in ranges],
        "sync": (flags.speculative_draft_sync or "lazy") if flags.dynamic else None,
    }


class FakeChild(FakeServer):
    """The shared fake server with late readiness and a rule that can be set."""

    def __init__(self, state: dict[str, Any], ready_after_s: float = 0.0, api_key: str | None = None) -> None:
        super().__init__(Behaviour(info=state, api_key=api_key))
        self.ready_s = time.monotonic() + ready_after_s
        self.refuse_changes = False
        self.ignore_changes = False

    def app(self) -> web.Application:
        app = super().app()
        app.add_routes([web.post("/set_internal_state", self.set_internal_state)])
        return app

    async def health(self, _: web.Request) -> web.Response:
        return web.Response(status=200 if time.monotonic() >= self.ready_s else 503)

    async def server_info(self, request: web.Request) -> web.Response:
        if os.environ.get("FAKE_STOCK"):
            return web.json_response({"version": "fake", "internal_states": [{}]})
        return await super().server_info(request)

    async def set_internal_state(self, request: web.Request) -> web.Response:
        changes = (await request.json())["server_args"]["specswitch"]
        if not self.refuse_changes and not self.ignore_changes:
            try:
                self.behaviour.info.update(self._rule_after(changes))
            except RuleError:
                return web.json_response([False])
        return web.json_response([not self.refuse_changes])

    def _rule_after(self, changes: dict[str, Any]) -> dict[str, Any]:
        """What the changes make of the rule in force, by the engine room's own rule."""
        fields = {k: v for k, v in changes.items() if k != "sync"}
        if fields.get("ranges") is not None:
            fields["ranges"] = parse_ranges(fields["ranges"])
        info = self.behaviour.info
        rule = Rule(info["threshold"], info["enable_threshold"], info["dwell"]).changed(**fields)
        ranges = None if rule.ranges is None else [list(r) for r in rule.ranges]
        sync = changes.get("sync", info["sync"])
        return {**dataclasses.asdict(rule), "ranges": ranges, "sync": sync}


async def _main(argv: list[str]) -> None:
    state = honest_state(argv) | json.loads(os.environ.get("FAKE_STATE", "{}"))
    flags = parse_flags(argv)
    server = FakeChild(state, float(os.environ.get("FAKE_READY_AFTER_S", "0")), flags.api_key)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with serving(server, flags.port):
        await stop.wait()


if __name__ == "__main__":
    if "FAKE_GRANDCHILD" in os.environ:
        helper = subprocess.Popen([sys.executable, "-c", STUBBORN_HELPER], start_new_session=True)
        Path(os.environ["FAKE_GRANDCHILD"]).write_text(str(helper.pid), encoding="utf-8")
    asyncio.run(_main(sys.argv[1:]))
