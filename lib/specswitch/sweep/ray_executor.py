"""Measure the points of a run on a Ray cluster: several GPUs, or several hosts.

A task is all points that share a server and a repeat, so that the server starts once; it owns the GPUs that the
server needs (on the CPU: a whole node, as two loads on one node would measure each other). It runs the ordinary
runner into a folder of its own and sends each finished point back; only the driver writes the run folder. Nodes
should be alike, have this package installed, find the models under the same path, and have SPECSWITCH_API_KEY set
if the driver has.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specswitch.config import ServerConfig
from specswitch.load.crossing_plan import AnyPoint
from specswitch.metrics.records import RequestRecord, StepRecord
from specswitch.results.files import write_atomically
from specswitch.results.frames import read_requests, read_step_records
from specswitch.results.layout import REQUESTS, SERVERS, STEPS
from specswitch.results.manifest import RunRequest
from specswitch.results.store import RunStore, check_point, open_store
from specswitch.serving.errors import PreflightError
from specswitch.sweep.grid import launch_config
from specswitch.sweep.measure import PointFailedError, SweepStoppedError
from specswitch.sweep.parameters import RunParameters
from specswitch.sweep.pool import Launch
from specswitch.sweep.runner import alone_on, measure_here
from specswitch.sweep.work import Done, Executor, Work

POLL_S = 0.2
CANCEL_WAIT_S = 60.0
# At its end a worker would kill its children, the server's supervisor among them, but not the server. Left alone,
# the supervisor sees that the worker is gone and takes the server down.
WORKER_ENV = {"RAY_kill_child_processes_on_worker_exit": "0"}
# Entries of a point file that the writer of the run folder adds itself.
_WRITERS_OWN = ("schema_version", "point_id", "files", "digest")


@dataclass(frozen=True, slots=True)
class Sent:
    """A finished point on its way to the driver. `server`: its entry for the manifest; `log`: all of its log."""

    point_id: str
    row: dict[str, Any]
    records: list[RequestRecord]
    steps: list[StepRecord]
    server: dict[str, Any]
    log: bytes


@dataclass(frozen=True, slots=True)
class Failed:
    """Why a task ended early."""

    message: str


class RayExecutor:
    """An executor on the Ray cluster at `address`; `auto` is the one of this machine, or of RAY_ADDRESS.

    Calling it raises PreflightError when there is no such cluster or no node has what a server needs,
    PointFailedError for the first task that failed or was lost, and SweepStoppedError; then every other task is
    cancelled. Points that a task had sent by then are stored.
    """

    def __init__(self, address: str = "auto") -> None:
        """Raises PreflightError when Ray is not installed."""
        self._address = address
        try:
            import ray
        except ImportError as missing:
            raise PreflightError(
                "executor='ray' needs Ray: pip install 'specswitch[ray]', on every node"
            ) from missing
        self._ray = ray

    def __call__(self, work: Work) -> Generator[Done, None, None]:
        """Measure the points of `work` on the cluster, as many groups at once as it has room for."""
        ray = self._ray
        with self._connected():
            options = self._needs(work.request.plan.server)
            task = ray.remote(_measure_group).options(
                num_returns="streaming", max_retries=0, runtime_env={"env_vars": WORKER_ENV}, **options
            )
            running = [task.remote(work.request, group, work.launch) for group in groups(work.missing)]
            book = _Book(work.store)
            try:
                while running:
                    if work.stop.is_set():
                        raise SweepStoppedError("stopped while tasks were running on the cluster")
                    ready, _ = ray.wait(running, num_returns=1, timeout=POLL_S, fetch_local=False)
                    for one in ready:
                        arrived = self._next(one)
                        if arrived is None:
                            running.remove(one)
                        elif isinstance(arrived, Failed):
                            raise PointFailedError(arrived.message)
                        else:
                            yield arrived.point_id, book.keep(one, arrived)
            finally:
                self._cancel(running)

    def _cancel(self, tasks: list[Any]) -> None:
        """Interrupt these tasks, and wait until they have taken their servers down."""
        for one in tasks:
            self._ray.cancel(one)
        deadline_s = time.monotonic() + CANCEL_WAIT_S
        left = list(tasks)
        while left and time.monotonic() < deadline_s:
            ended, _ = self._ray.wait(left, num_returns=1, timeout=POLL_S, fetch_local=False)
            for one in ended:
                if not isinstance(self._next(one), Sent):
                    left.remove(one)

    def _next(self, task: Any) -> Sent | Failed | None:
        """What a task has sent; None at its end."""
        try:
            return self._ray.get(next(task))
        except StopIteration:
            return None
        except self._ray.exceptions.RayError as lost:
            return Failed(f"a task was lost, its node or its process ended: {lost}")

    @contextmanager
    def _connected(self) -> Iterator[None]:
        if self._ray.is_initialized():
            yield
            return
        try:
            self._ray.init(self._address, log_to_driver=False)
        except ConnectionError as nobody:
            raise PreflightError(
                f"no Ray cluster at {self._address!r} (start one with `ray start --head`): {nobody}"
            ) from nobody
        try:
            yield
        finally:
            self._ray.shutdown()

    def _needs(self, server: ServerConfig) -> dict[str, Any]:
        """Resources of a task, as Ray's options."""
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        if server.device == "cpu":
            return {"num_cpus": min(node["CPU"] for node in nodes if node.get("CPU"))}
        most = max((node.get("GPU", 0) for node in nodes), default=0)
        if most < server.tp:
            raise PreflightError(f"tp={server.tp}: no node of the Ray cluster has more than {most:g} GPUs")
        return {"num_gpus": server.tp}


def executor_of(asked: RunParameters) -> Executor | None:
    """The executor that the parameters name; None is this process. Raises PreflightError when Ray is absent."""
    return RayExecutor() if asked.executor == "ray" else None


def groups(points: Sequence[AnyPoint]) -> list[list[AnyPoint]]:
    """Points that share a server and a repeat, in the order of their first ones."""
    found: dict[tuple[int, str], list[AnyPoint]] = {}
    for point in points:
        found.setdefault((point.repeat, launch_config(point.server).canonical()), []).append(point)
    return list(found.values())


def _measure_group(
    request: RunRequest, points: list[AnyPoint], launch: Launch
) -> Generator[Sent | Failed, None, None]:
    """The task: one server, started here, for all of `points`; each is sent when it is finished."""
    own = RunRequest(request.plan, points, {}, request.synthetic)
    with tempfile.TemporaryDirectory(prefix="specswitch-task-") as scratch:
        try:
            with alone_on(request.plan.server.device), open_store(Path(scratch) / "run", own) as store:
                work = Work(own, points, store, "one", launch, threading.Event(), _nobody, _nobody)
                with closing(measure_here(work)) as measured:
                    for point_id, _ in measured:
                        yield _sent(store, point_id)
        except Exception as problem:  # whatever it is, the driver is told
            yield Failed(f"{type(problem).__name__}: {problem}")


def _sent(store: RunStore, point_id: str) -> Sent:
    home = store.point_folder(point_id)
    row = {k: v for k, v in check_point(home).items() if k not in _WRITERS_OWN}
    server = store.manifest["servers"][-1]
    return Sent(
        point_id,
        row,
        read_requests(home / REQUESTS),
        read_step_records(home / STEPS),
        {**server, "node": _node()},
        (store.folder / server["log"]).read_bytes(),
    )


def _node() -> str:
    """Ray's own short name of the node that this task runs on."""
    import ray

    return ray.get_runtime_context().get_node_id()[:8]


def _nobody(_: str) -> None:
    """Nobody looks on."""


class _Book:
    """The driver's side of the run folder: gives the tasks' servers names of their own, and writes."""

    def __init__(self, store: RunStore) -> None:
        self._store = store
        self._names: dict[tuple[Any, str], str] = {}

    def keep(self, task: Any, sent: Sent) -> dict[str, Any]:
        """Store a point of a task; returns its row."""
        key = (task, sent.server["name"])
        new = key not in self._names
        name = self._names.setdefault(key, self._free_name(sent.server["name"]))
        log = f"{SERVERS}/{name}.log"
        write_atomically(self._store.folder / log, sent.log)
        if new:
            self._store.add_server({**sent.server, "name": name, "log": log})
        row = {**sent.row, "server": name, "server_log": {**sent.row["server_log"], "file": log}}
        raw = self._store.write_raw(sent.point_id, sent.records, sent.steps)
        self._store.write_point(sent.point_id, row, raw)
        return row

    def _free_name(self, base: str) -> str:
        taken = {entry["name"] for entry in self._store.manifest["servers"]}
        names = (base if n == 1 else f"{base}-{n}" for n in range(1, len(taken) + 2))
        return next(name for name in names if name not in taken)
