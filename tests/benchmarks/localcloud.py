"""What the embedded cloud holds and how fast it answers: API objects at scale, and real machines side by side.

    python tests/benchmarks/localcloud.py [--nodes 300] [--machines 8] [--json]

`--nodes` single-worker and four-worker nodes are created over the wire (in the default mix 300 nodes have 1,002
workers), then keep-alive GETs of each shape are timed (also in processor time, which a busy host does not change, and
beside the same GET of a bare aiohttp server that knows its answer; `load` is the host's at that moment) and the process
weighed. `--machines` nodes are then booted with their sandbox and sshd on a second cloud: the time until the last one
has booted, the memory that one idle machine takes (proportional share of everything in its process tree, measured from
/proc), the same GETs beside them, and the time until a command has run on all of them over SSH connections that are
open at once.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

import asyncssh

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.cloud_fixture import LocalCloud

NODES = "/v2/projects/local-tests/locations/us-central1-a/nodes"
MIX = (*["v2-32"] * 7, *["v3-8"] * 2)
GETS = 500
ZONE = "/compute/v1/projects/local-tests/zones/us-central1-a"
SHAPES = {
    "node": f"{NODES}/n0",
    "instance": f"{ZONE}/instances/beside",
    "bucket": "/storage/v1/b/bench",
    "object": "/storage/v1/b/bench/o/runs%2Flease.json",
    "bytes": "/download/storage/v1/b/bench/o/runs%2Flease.json?alt=media",
    "objects": "/storage/v1/b/bench/o?prefix=runs/",
    "types": "/v2/projects/local-tests/locations/us-central1-a/acceleratorTypes",
}
"""What is got, by the word it has in the output: the things a controller asks for again and again."""
BODY = {"runtimeVersion": "tpu-ubuntu2204-base"}
BARE = """
import sys
from aiohttp import web
body = sys.stdin.buffer.read()
async def answer(request):
    return web.Response(body=body, headers={"Content-Type": "application/json; charset=UTF-8"})
application = web.Application()
application.router.add_route("*", "/{path:.*}", answer)
up = lambda *_: print("up", flush=True)
web.run_app(application, host="127.0.0.1", port=int(sys.argv[1]), access_log=None, print=up)
"""


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


def furnished(cloud: LocalCloud) -> None:
    """Make the other things that `SHAPES` get."""
    disk = {"boot": True, "initializeParams": {"sourceImage": "projects/debian-cloud/global/images/family/debian-12"}}
    body = {"name": "beside", "machineType": f"{ZONE[12:]}/machineTypes/e2-small", "disks": [disk]}
    cloud.ask("POST", f"{ZONE}/instances", {**body, "networkInterfaces": [{}]})
    cloud.ask("POST", "/storage/v1/b?project=local-tests", {"name": "bench"})
    cloud.ask("POST", "/upload/storage/v1/b/bench/o?uploadType=media&name=runs/lease.json", {"holder": "x" * 300})


def gets_ms(url: str, path: str, count: int = GETS) -> tuple[float, float]:
    """p50 and p99 of a keep-alive GET, milliseconds."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port)
    took = []
    for _ in range(count):
        began = time.perf_counter()
        connection.request("GET", f"{parts.path}{path}")
        reply = connection.getresponse()
        reply.read()
        took.append((time.perf_counter() - began) * 1000)
        assert reply.status == 200, path
    connection.close()
    return statistics.median(took), statistics.quantiles(took, n=100)[98]


def bare_ms(answer: bytes) -> float:
    """p50 of the same GET of an aiohttp server that only hands out these bytes."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", BARE, str(port)], **pipes) as bare:  # type: ignore[call-overload]
        bare.stdin.write(answer)
        bare.stdin.close()
        bare.stdout.readline()
        median, _ = gets_ms(f"http://127.0.0.1:{port}/k-x", SHAPES["node"])
        bare.terminate()
    return median


def all_gets(cloud: LocalCloud, beside: str = "") -> dict[str, float]:
    """Every shape's median; of a node also its slowest hundredth, its processor time and what a bare server takes."""
    used = cpu_s(cloud.pid)
    median, slow = gets_ms(cloud.url, SHAPES["node"])
    used = cpu_s(cloud.pid) - used
    bare = bare_ms(json.dumps(cloud.ask("GET", SHAPES["node"])).encode())
    found = {f"get_{shape}_p50_ms": gets_ms(cloud.url, path)[0] for shape, path in SHAPES.items() if shape != "node"}
    node = {"p50_ms": median, "p99_ms": slow, "cpu_ms": used * 1000 / GETS, "to_bare": median / bare}
    whole = {**{f"get_node_{name}": value for name, value in node.items()}, **found, "bare_p50_ms": bare}
    return {f"{name}{beside}": value for name, value in {**whole, "load": os.getloadavg()[0]}.items()}


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
        furnished(cloud)
        gets = all_gets(cloud)
        began = time.perf_counter()
        listed = len(cloud.ask("GET", NODES)["nodes"])
        return {
            "nodes": nodes,
            "workers": workers,
            "listed": listed,
            "creation_s": took,
            **gets,
            "list_ms": (time.perf_counter() - began) * 1000,
            "empty_mib": empty,
            "full_mib": share_mib(cloud.pid),
        }
    finally:
        cloud.stop()


def machines(folder: Path, count: int) -> dict[str, float]:
    """Real machines, idle, then all of them with a login at once."""
    cloud = LocalCloud(folder / "machines", "--seed", "1")
    cloud.start()
    key = folder / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    BODY["metadata"] = {"ssh-keys": f"bench:{key.with_suffix('.pub').read_text().strip()}"}  # type: ignore[assignment]
    try:
        empty = share_mib(cloud.pid)
        began = time.monotonic()
        filled(cloud, count, ("v3-8",))
        until_booted(cloud, count)
        took = time.monotonic() - began
        mib = (share_mib(cloud.pid) - empty) / count
        addresses = [machine["address"] for machine in cloud.status()["machines"]]
        furnished(cloud)
        until_booted(cloud, count + 1)
        gets = all_gets(cloud, "_idle")
        began = time.monotonic()
        open_at_once = asyncio.run(logins(addresses, cloud.ssh_port, str(key)))
        in_s = time.monotonic() - began
        boots = {"machines": count, "booted_s": took, "mib_a_machine": mib}
        return {**boots, **gets, "ssh_at_once": open_at_once, "ssh_s": in_s}
    finally:
        cloud.stop()


def until_booted(cloud: LocalCloud, count: int) -> None:
    """Wait for so many machines, at most ten minutes."""
    until = time.monotonic() + 600.0
    while sum(machine["booted"] for machine in cloud.status()["machines"]) < count:
        assert time.monotonic() < until, "not all machines boot"
        time.sleep(0.2)


async def logins(addresses: list[str], port: int, key: str) -> int:
    """Connect to all, and with every connection open run a command on each; how many answered well."""
    options = {"username": "bench", "client_keys": [key], "known_hosts": None, "config": None, "agent_path": None}
    connecting = (
        asyncssh.connect(address, port, connect_timeout=300, login_timeout=300, **options) for address in addresses
    )
    connections = await asyncio.gather(*connecting)
    done = await asyncio.gather(*(connection.run("hostname", check=True) for connection in connections))
    for connection in connections:
        connection.close()
    return len({each.stdout for each in done})


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
        sys.stdout.write(f"{name:25} {value:10.2f}\n")


if __name__ == "__main__":
    main()
