"""What an executor gets: the points that are missing from a run folder, and how they are to be measured.

An executor is a generator function that measures the points of a `Work` and yields each as soon as it is stored.
`runner.measure_here` does it in this process, one point after the other; `ray_executor.RayExecutor` on a cluster.
The store's folder is locked by the process that calls the executor, which is the only one to write there.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from specswitch.load.crossing_plan import AnyPoint
from specswitch.results.manifest import RunRequest
from specswitch.results.store import RunStore
from specswitch.sweep.grid import Hold
from specswitch.sweep.pool import Launch

# A point id and the row that was stored for it.
Done = tuple[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Work:
    """Points of `request` to be measured into `store`. `stop`: end as soon as possible, from any thread.

    `starting` is told the name of each server, `beginning` the id of each point.
    """

    request: RunRequest
    missing: Sequence[AnyPoint]
    store: RunStore
    hold: Hold
    launch: Launch
    stop: threading.Event
    starting: Callable[[str], None]
    beginning: Callable[[str], None]


Executor = Callable[[Work], Generator[Done, None, None]]
