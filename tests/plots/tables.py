"""Made-up tables for tests of figures and reports: numbers by formula, a little noise, no measurement."""

from __future__ import annotations

import random

import pandas as pd

STATIC = ("none", "none-sync", "always-v1", "always-v2")
DYNAMIC = (*STATIC, "off-v2-lazy", "dynamic-v1-t8-lazy", "dynamic-v2-t8-lazy", "dynamic-v2-t16-lazy")
CONCURRENCIES = (1, 2, 4, 8, 16, 32)
STATS = ("mean", "p50", "p90", "p99")


def made_up_table(
    labels: tuple[str, ...] = STATIC,
    concurrencies: tuple[int, ...] = CONCURRENCIES,
    repeats: int = 3,
    drop: tuple[tuple[str, int], ...] = (),
) -> pd.DataFrame:
    """One row per arm x concurrency x repeat, in the columns of a results table; `drop` leaves cells out."""
    noise = random.Random(7)
    rows = [
        made_up_row(label, c, repeat, noise)
        for repeat in range(repeats)
        for c in concurrencies
        for label in labels
        if (label, c) not in drop
    ]
    return pd.DataFrame(rows)


def limited(table: pd.DataFrame) -> pd.DataFrame:
    """The table with the goodput under a limit that everything meets."""
    return table.assign(ttft_limit_ms=1e6, goodput_tok_s=table["output_tok_s"], goodput_requests=1.0)


def made_up_row(label: str, concurrency: int, repeat: int, noise: random.Random) -> dict[str, object]:
    """One finished point. Speculation wins at low concurrency and loses at high, as on a real machine."""
    mode = label.split("-", maxsplit=1)[0]
    path = next((p for p in ("v1", "v2") if p in label.split("-")), "none")
    threshold = next((int(part[1:]) for part in label.split("-") if part[0] == "t"), 0)
    speculates = mode == "always" or (mode == "dynamic" and concurrency <= threshold)
    plain = 310 * concurrency**0.72 * (0.94 if label == "none-sync" or path == "v1" else 1.0)
    speed = plain * ((1.5 - 0.14 * concurrency**0.5) if speculates else 1.0)
    tok_s = speed * noise.gauss(1, 0.012)
    itl = 1000 * concurrency / tok_s
    row: dict[str, object] = {
        "point_id": f"{label}-c{concurrency}-r{repeat}-0123456789ab",
        "status": "finished",
        "arm": mode,
        "label": label,
        "path": path,
        "worker_class": {"none": "TpModelWorker", "v1": "EAGLEWorker", "v2": "EAGLEWorkerV2"}[path],
        "threshold": {"dynamic": threshold, "off": 0}.get(mode),
        "concurrency": concurrency,
        "repeat": repeat,
        "output_tok_s": tok_s,
        "synthetic": False,
        "completed": 12 * concurrency,
        "failed": 0,
        "max_running_observed": concurrency,
        "switches": 0 if mode != "dynamic" else 2,
    }
    for metric, base in (("ttft", 18 + 2.4 * concurrency), ("itl", itl), ("tpot", itl), ("e2e", 64 * itl)):
        for stat, factor in zip(STATS, (1.0, 0.96, 1.25, 1.7), strict=True):
            row[f"{metric}_ms_{stat}"] = base * factor * noise.gauss(1, 0.02)
    verify = 400 * concurrency if speculates else 0
    accepted = round(verify * noise.gauss(1.42, 0.02))
    for name, num, den in (
        ("accept_length", verify + accepted, verify),
        ("accept_rate", accepted, 3 * verify),
        ("speculated_share_steps", 400 if speculates else 0, 400 if path != "none" else 0),
        ("speculated_share_tokens", verify + accepted, (verify + accepted) or 400 * concurrency),
    ):
        defined = path != "none" and den > 0
        row[name] = num / den if defined else None
        row[f"{name}_num"] = num if path != "none" else None
        row[f"{name}_den"] = den if path != "none" else None
    return row
