"""Growth of memory: known slopes, and a real process."""

from __future__ import annotations

import mmap
import os
import platform
import random
import subprocess
import sys

import psutil
import pytest

from specswitch.soak.memory import Sample, growth, resident_mib
from specswitch.soak.plan import STEADY_HEAP


def samples(
    slope: float, count: int = 300, noise: float = 3.0, warm_up: float = 200.0, seed: int = 1
) -> list[Sample]:
    """A sample per 20 requests: `slope` MiB per 1000, noise, and a start-up that adds `warm_up` MiB early."""
    rng = random.Random(seed)
    return [
        Sample(
            20 * i,
            {
                "server": 1000.0,
                "scheduler": 1000
                + slope * 20 * i / 1000
                + rng.gauss(0, noise)
                + warm_up * min(1, i / (count / 5)),
            },
        )
        for i in range(count)
    ]


def test_flat_memory_is_flat_in_spite_of_noise_and_start_up():
    found = growth(samples(0.0), limit=2.0)
    assert found.verdict == "flat"
    assert found.low < 0.5
    assert found.high < 2.0


@pytest.mark.parametrize("slope", [5.0, 50.0])
def test_a_leak_is_found_with_its_size(slope: float):
    found = [growth(samples(slope, seed=seed), limit=2.0) for seed in range(100)]
    assert {f.verdict for f in found} == {"grows"}
    assert 90 <= sum(f.low <= slope <= f.high for f in found) <= 99
    assert all(f.last_mib > f.first_mib for f in found)


def test_the_process_that_grows_is_named():
    found = growth(samples(5.0), limit=2.0)
    assert found.by_process == {"server": 0.0, "scheduler": pytest.approx(found.slope)}


def test_a_process_that_came_or_went_has_no_slope_of_its_own():
    seen = samples(0.0)
    late = [s._replace(by_process={**s.by_process, "helper": 1.0}) if s.requests > 5000 else s for s in seen]
    assert list(growth(late).by_process) == ["server", "scheduler"]


def test_a_slope_at_the_limit_is_undecided():
    verdicts = [growth(samples(2.0, seed=seed), limit=2.0).verdict for seed in range(100)]
    assert verdicts.count("undecided") >= 90


def test_a_run_that_is_all_warm_up_decides_nothing():
    assert growth(samples(50.0, count=100)).verdict == "undecided"
    assert growth([Sample(s.requests // 3, s.by_process) for s in samples(50.0)]).slope is None


def test_too_few_samples_decide_nothing():
    found = growth(samples(50.0, count=70), limit=2.0)
    assert (found.verdict, found.slope, found.low, found.high) == ("undecided", None, None, None)
    assert growth([Sample(5, {"server": 100.0})] * 300).verdict == "undecided"


def test_resident_memory_is_seen_to_grow():
    own = psutil.Process().name()
    before = resident_mib(os.getpid())
    with mmap.mmap(-1, 64 * 2**20) as block:  # new pages for certain; a heap may hand out old ones
        block.write(os.urandom(2**20) * 64)
        assert resident_mib(os.getpid())[own] - before[own] == pytest.approx(64, abs=20)


SERVER = """
import random, sys

kept, kib = [], float(sys.argv[1])
passing = [b""] * 400
for line in sys.stdin:
    for _ in range(int(line)):
        for _ in range(5):  # comes and goes, of all sizes, as in a server
            passing[random.randrange(400)] = random.randbytes(random.randrange(1, 30_000))
        if kib:
            kept.append(random.randbytes(int(kib * 1024)))
    print(flush=True)
"""


@pytest.mark.parametrize(("kib", "verdict"), [(0.0, "flat"), (3.0, "grows")])
def test_a_process_that_keeps_a_few_kib_of_every_request_is_found_out(kib: float, verdict: str):
    """3 KiB a request is what was once kept of it in a real server."""
    command = [sys.executable, "-c", SERVER, str(kib)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        seen = []
        for done in range(0, 8000, 40):
            seen.append(Sample(done, resident_mib(server.pid)))
            print(40, file=server.stdin, flush=True)
            server.stdout.readline()
        server.stdin.close()
    found = growth(seen, limit=2.0)
    assert found.verdict == verdict, found
    assert found.slope == pytest.approx(1000 * kib / 1024, rel=0.5, abs=0.5)


PASSING = """
import sys

print(flush=True)
sys.stdin.readline()
large = b"x" * (12 << 20)
del large
for size in (150_000, 400_000, 900_000):
    blocks = [b"x" * size for _ in range(10_000_000 // size)]
    del blocks
print(flush=True)
sys.stdin.readline()
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the settings are glibc's")
@pytest.mark.parametrize(("settings", "stays"), [({}, True), (STEADY_HEAP, False)])
def test_in_a_soaked_server_freed_memory_is_no_longer_resident(settings: dict[str, str], stays: bool):
    command = [sys.executable, "-c", PASSING]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MALLOC_")} | settings
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **pipes, text=True, env=environment) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdout.readline()
        before = sum(resident_mib(server.pid).values())
        print(file=server.stdin, flush=True)
        server.stdout.readline()
        grown = sum(resident_mib(server.pid).values()) - before
        server.stdin.close()
    assert grown > 5 if stays else grown < 1, grown
