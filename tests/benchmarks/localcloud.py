"""What the embedded cloud holds and how fast it answers: API objects at scale, and real machines side by side.

    python tests/benchmarks/localcloud.py [--nodes 300] [--machines 8] [--json]

`--nodes` single-worker and four-worker nodes are created over the wire (in the default mix 300 nodes have 999
workers), then a keep-alive GET is timed (also in processor time, which a busy host does not
change) and the process weighed. `--machines` nodes are then booted with their sandbox
and sshd on a second cloud: the time until the last one has booted, and the memory that one idle machine takes
(proportional share of everything in its process tree, measured from /proc).
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.cloud_fixture import LocalCloud

NODES = "/v2/projects/local-tests/locations/us-central1-a/nodes"
MIX = ("v3-8", "v2-32", "v2-32", "v2-32", "v3-8", "v2-32", "v2-32", "v2-32", "v2-32")
GETS = 500
BODY = {"runtimeVersion": "tpu-ubuntu2204-base"}


def share_mib(pid: int) -> float:
    """Proportional set size of a process and everything below it, MiB."""
    total = 0.0
    for one in [pid, *below(pid)]:
        try:
            text = Path(f"/proc/{one}/smaps_rollup").read_text()
        except OSError:  # it ended
            continue
        total += sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")) / 1024
    return total


def below(pid: int) -> list[int]:
    """All processes below one."""
    try:
        threads = list(Path(f"/proc/{pid}/task").iterdir())
        children = [int(child) for thread in threads for child in (thread / "children").read_text().split()]
    except OSError:
        return []
    return [found for child in children for found in (child, *below(child))]


def filled(cloud: LocalCloud, nodes: int, kinds: tuple[str, ...]) -> float:
    """Create nodes, wait until every one is ready; seconds."""
    began = time.monotonic()
    for number in range(nodes):
        kind = kinds[number % len(kinds)]
        cloud.ask("POST", f"{NODES}?nodeId=n{number}", {**BODY, "acceleratorType": kind})
    while any(node["state"] != "READY" for node in cloud.status()["nodes"]):
        time.sleep(0.05)
    return time.monotonic() - began


def gets_ms(url: str, count: int = GETS) -> tuple[float, float]:
    """p50 and p99 of a keep-alive GET of one node, milliseconds."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port)
    took = []
    for _ in range(count):
        began = time.perf_counter()
        connection.request("GET", f"{parts.path}{NODES}/n0")
        connection.getresponse().read()
        took.append((time.perf_counter() - began) * 1000)
    connection.close()
    return statistics.median(took), statistics.quantiles(took, n=100)[98]


def cpu_s(pid: int) -> float:
    """Processor time a process has used, seconds."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def objects(folder: Path, nodes: int) -> dict[str, float]:
    """API objects alone."""
    cloud = LocalCloud(folder / "objects", "--seed", "1", "--no-machines")
    cloud.start()
    try:
        empty = share_mib(cloud.pid)
        took = filled(cloud, nodes, MIX)
        workers = len(cloud.status()["machines"])
        used = cpu_s(cloud.pid)
        median, slow = gets_ms(cloud.url)
        used = cpu_s(cloud.pid) - used
        began = time.perf_counter()
        listed = len(cloud.ask("GET", NODES)["nodes"])
        return {
            "nodes": nodes,
            "workers": workers,
            "listed": listed,
            "creation_s": took,
            "get_p50_ms": median,
            "get_p99_ms": slow,
            "get_cpu_ms": used * 1000 / GETS,
            "list_ms": (time.perf_counter() - began) * 1000,
            "empty_mib": empty,
            "full_mib": share_mib(cloud.pid),
        }
    finally:
        cloud.stop()


def machines(folder: Path, count: int) -> dict[str, float]:
    """Real machines, idle."""
    cloud = LocalCloud(folder / "machines", "--seed", "1")
    cloud.start()
    try:
        empty = share_mib(cloud.pid)
        began = time.monotonic()
        filled(cloud, count, ("v3-8",))
        while sum(machine["booted"] for machine in cloud.status()["machines"]) < count:
            time.sleep(0.05)
        took = time.monotonic() - began
        return {"machines": count, "booted_s": took, "mib_a_machine": (share_mib(cloud.pid) - empty) / count}
    finally:
        cloud.stop()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=300)
    parser.add_argument("--machines", type=int, default=8)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = objects(Path(folder), given.nodes)
        if given.machines:
            found |= machines(Path(folder), given.machines)
    if given.json:
        sys.stdout.write(json.dumps(found) + "\n")
        return
    for name, value in found.items():
        sys.stdout.write(f"{name:15} {value:10.2f}\n")


if __name__ == "__main__":
    main()
