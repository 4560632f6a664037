"""How fast logs are read, against the raw multi-pattern engine, Python's `re` and grep, in one run.

    python tests/benchmarks/diagnosis.py [--megabytes 200] [--gigabyte] [--json]

Logs are made: a healthy training log, one in which every line is suspicious, and one line without end; these must be
read at 0.75 of the raw engine's speed at least, and all in time linear in their size, or the exit code is 1. A coloured
one and one in which progress and alarms alternate are shown for comparison: their codes are taken out, and their lines
are read, in Python. `raw` is the same RE2 set over the same bytes in the same block size with nothing else done; `re`
and `grep` get one alternation of all patterns over a smaller piece. `--gigabyte` streams 1 GB in place of that, and
ends with 1 where the process ever held more than 100 MB.
CPU times, the best of five taken in turn; ratios matter, not absolute numbers.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tpuops.diagnosis.engine import packaged_engine
from tpuops.diagnosis.examine import examine
from tpuops.diagnosis.reading import BLOCK

HEALTHY = b"I0716 12:55:%02d.170147 141509353829580 trainer.py:1142] completed step: %d, seconds: 1.386, loss: 0.%03d\n"
PLAIN = b"I0716 12:55:%02d.170147 141509353829580 loader.py:88] shard %d of 4096 opened in 0.%03d s\n"
SUSPICIOUS = b'W rpc/grpc_remote_master.cc:157] RPC failed with status = "Unavailable: Socket closed" try %d\n'
COLOURED = b"\x1b[32mINFO\x1b[0m 12:55:%02d loader.py:88 shard %d opened\n"
LEAST, LINEAR, PEAK_MB = 0.75, 1.5, 100.0
"""Ratio to the raw engine at least; how much faster half of a log may be read, a byte; megabytes held at most."""
HELD_TO_IT = ("healthy", "suspicious", "endless line")
HOSTILE = b"Barrier Quota limit '" * 3 + b"a(" * 20 + b"[4003: TPU node state Killed resource " * 2


def made(kind: str, size: int) -> bytes:
    """A log of about `size` bytes."""
    if kind == "healthy":
        lines = [(HEALTHY if n % 4 == 0 else PLAIN) % (n % 60, n, n * 7919 % 1000) for n in range(20_000)]
    elif kind == "suspicious":
        lines = [SUSPICIOUS % n for n in range(20_000)]
    elif kind == "coloured":
        lines = [COLOURED % (n % 60, n) for n in range(20_000)]
    elif kind == "alternating":
        lines = [HEALTHY % (n % 60, n, n * 7919 % 1000) + SUSPICIOUS % n for n in range(20_000)]
    else:
        lines = [HOSTILE] * 1000
    piece = b"".join(lines)
    return piece * max(1, size // len(piece))


def chunks(data: bytes):
    return (data[at : at + BLOCK] for at in range(0, len(data), BLOCK))


def best(data: bytes, *works, times: int = 5) -> list[float]:
    """Bytes a second of CPU time of each, best of some; taken in turn, so that they meet the same neighbours."""
    seconds: list[list[float]] = [[] for _ in works]
    for _ in range(times):
        for work, taken in zip(works, seconds, strict=True):
            start = time.process_time() + children_s()
            work(data)
            taken.append(time.process_time() + children_s() - start)
    return [len(data) / min(taken) for taken in seconds]


def children_s() -> float:
    """CPU seconds of ended child processes."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def raw(data: bytes) -> None:
    which = packaged_engine().which
    for chunk in chunks(data):
        which(chunk)


def ours(data: bytes) -> None:
    examine(chunks(data), packaged_engine())


def alternation() -> bytes:
    """Every pattern of the set as one, in the syntax that `re` and PCRE share."""
    patterns = [re.sub(rb"\(\?m:([$^])\|", rb"(?:\1|", each.pattern) for each in packaged_engine().signatures]
    scoped = [re.sub(rb"^\(\?i\)", b"", p) for p in patterns]
    return b"|".join(b"(?:" + each + b")" for each in scoped)


def python_re(data: bytes) -> None:
    compiled = re.compile(alternation(), re.MULTILINE)
    for line in data.split(b"\n"):
        compiled.search(line)


def grep(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        log, patterns = Path(folder, "log"), Path(folder, "patterns")
        log.write_bytes(data)
        patterns.write_bytes(alternation().replace(b"\n", b"\\n"))
        subprocess.run(["grep", "-c", "-a", "-P", "-f", patterns, log], capture_output=True, check=False)


def gigabyte() -> dict[str, float]:
    """Stream 1 GB through the product; the log is never whole in memory."""
    piece = made("healthy", 4 << 20)

    def stream():
        for _ in range((1 << 30) // len(piece)):
            yield from chunks(piece)

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    start = time.process_time()
    examine(stream(), packaged_engine())
    seconds = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": round(seconds, 2), "peak_mb": round(peak, 1), "peak_before_mb": round(before, 1)}


def measured(megabytes: int) -> dict[str, dict[str, float]]:
    """Every kind of log through every reader."""
    table: dict[str, dict[str, float]] = {}
    for kind in (*HELD_TO_IT, "coloured", "alternating"):
        data = made(kind, megabytes << 20)
        raw_rate, our_rate = best(data, raw, ours)
        row = {"raw": raw_rate, "ours": our_rate}
        if kind == "healthy":
            small = data[: 2 << 20]
            row |= {"re": best(small, python_re, times=1)[0], "grep -P": best(data, grep, times=1)[0]}
        (half_rate,) = best(data[: len(data) // 2], ours)
        table[kind] = row | {"linear": half_rate / our_rate, "ratio": our_rate / raw_rate}
    return table


def misses(result: dict[str, dict[str, Any]]) -> Iterator[str]:
    """What the product did not keep."""
    for kind, row in result.get("throughput", {}).items():
        if kind in HELD_TO_IT and row["ratio"] < LEAST:
            yield f"{kind}: {row['ratio']:.2f} of the raw engine, {LEAST} at least"
        if row["linear"] > LINEAR:
            yield f"{kind}: half of it is read {row['linear']:.2f} times as fast, {LINEAR} at most"
    peak = result.get("gigabyte", {}).get("peak_mb", 0.0)
    if peak > PEAK_MB:
        yield f"1 GB: {peak} MB held, {PEAK_MB} at most"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--gigabyte", action="store_true")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    result: dict[str, dict[str, Any]] = {}
    if given.gigabyte:
        result["gigabyte"] = gigabyte()
    else:
        result["throughput"] = measured(given.megabytes)
    missed = list(misses(result))
    if given.json:
        sys.stdout.write(json.dumps(result) + "\n")
        return 1 if missed else 0
    for name, row in result.get("throughput", {}).items():
        cells = [f"{k} {v / 1e6:.1f} MB/s" if k not in {"ratio", "linear"} else f"{k} {v:.2f}" for k, v in row.items()]
        sys.stdout.write(f"{name:14} " + "   ".join(cells) + "\n")
    if "gigabyte" in result:
        sys.stdout.write(f"1 GB streamed: {result['gigabyte']}\n")
    sys.stdout.writelines(f"missed: {each}\n" for each in missed)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
