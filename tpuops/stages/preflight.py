"""Preflight: before a run starts, every worker says what it is like, and here it is judged, with a fix for each fault.

Pure but for `ask`. The order of the rows is the order of precedence: of several faults the first explains the others.
What tpuops itself repairs before a start (what an earlier run of ours left on the device) blocks nothing; what belongs
to somebody else is named and never touched.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from tpuops.diagnosis.classes import CLASSES
from tpuops.diagnosis.verdict import Basis, Verdict
from tpuops.errors import CommandFailed, Unreachable
from tpuops.remote.port import Agent
from tpuops.remote.readiness import Holder, Question, Readiness, Space
from tpuops.resources import Node

PORT = 8482
"""Where the workers of a JAX program meet, at the first of them (google-cloud.md 9.4)."""
WAIT_S = 10.0
LEAST_BYTES, FEW_BYTES = 256 << 20, 2 << 30
LEAST_NODES = 1000
MEMORY = "/dev/shm"  # noqa: S108 - a folder to speak of, not to write to
CLOCK_S = 60.0
IN_USE = "tpu_in_use"


class State(StrEnum):
    """What a row means for the run: `repair` is done by tpuops before the start, `note` blocks nothing."""

    OK = "ok"
    REPAIR = "repair"
    NOTE = "note"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Row:
    """One thing that was looked at on one worker; `failure_class` is diagnosis' name for a fault."""

    worker: int
    check: str
    state: State
    what: str
    fix: str = ""
    failure_class: str = ""


@dataclass(frozen=True, slots=True)
class Slice:
    """What the rows are judged against: the bucket's name, how many workers there are, how machines are typed at."""

    bucket: str
    workers: int
    ssh: str
    anew: str


def question(node: Node, worker: int, bucket: str, prefix: str, *, versions: bool = False) -> Question:
    """What one worker of `node` is asked; the way between workers only where there are several."""
    several = len(node.workers) > 1
    return Question(
        worker=worker,
        bucket=bucket,
        object=f"{prefix}preflight/{node.name}-{worker}",
        port=PORT if several else 0,
        here=node.workers[worker].internal_ip if several else "",
        first=node.workers[0].internal_ip if several else "",
        others=len(node.workers) - 1,
        wait_s=WAIT_S,
        versions=versions,
    )


Answers = Mapping[int, Readiness | str]
"""By worker: what it said, or why it said nothing."""


async def ask(agents: Mapping[int, Agent], questions: Mapping[int, Question]) -> dict[int, Readiness | str]:
    """Ask every worker at once, one round trip each. Never raises for what a machine does."""
    meeting = secrets.token_hex(8)

    async def one(worker: int, agent: Agent) -> tuple[int, Readiness | str]:
        try:
            return worker, await agent.preflight(replace(questions[worker], meeting=meeting))
        except (Unreachable, CommandFailed) as error:
            return worker, error.message

    return dict(await asyncio.gather(*(one(worker, agent) for worker, agent in agents.items())))


def judge(answers: Answers, about: Slice) -> tuple[Row, ...]:
    """Every row, worst kind of fault first within a worker's own order."""
    said = {worker: answer for worker, answer in sorted(answers.items()) if isinstance(answer, Readiness)}
    rows = [*_reached(answers, about)]
    for look in (_device, _lock, _disks, _clock, _bucket):
        rows += [row for worker, answer in said.items() for row in look(worker, answer, about)]
    rows += [*_code(said), *_versions(said)]
    if about.workers > 1:
        rows += [*_link(said, about)]
    return tuple(rows)


def blocking(rows: Iterable[Row]) -> Row | None:
    """The fault that keeps the run from starting; None where it can start."""
    return next((row for row in rows if row.state is State.BAD), None)


def verdict(row: Row) -> Verdict:
    """A fault as diagnosis says it, so that the ladder answers it like one that came while training."""
    failure = CLASSES[row.failure_class]
    line = f"preflight, worker {row.worker}: {row.check}: {row.what}"
    return Verdict(failure.name, failure.action, line, worker=row.worker, advice=row.fix, basis=Basis.EXIT)


def _reached(answers: Answers, about: Slice) -> Iterator[Row]:
    for worker in range(about.workers):
        answer = answers.get(worker, "nobody asked it")
        if isinstance(answer, str):
            fix = "its node is READY: look at the firewall rule for tcp:22, or make it anew: " + about.anew
            yield Row(worker, "reachable", State.BAD, answer, fix, "ssh_timeout")
        else:
            yield Row(worker, "reachable", State.OK, "answers")


def _device(worker: int, answer: Readiness, about: Slice) -> Iterator[Row]:
    """Who holds the accelerator: nobody, the run that lives there, what an earlier one left, or a stranger."""
    for holder in answer.holders:
        yield _held(worker, holder, answer, about)
    if answer.holders:
        return
    if not answer.device_files and not answer.rehearsal:
        what = "no /dev/accel* or /dev/vfio/* is there"
        yield Row(worker, "device", State.NOTE, what, f"if the program sees no TPU: {about.anew}")
    elif answer.hidden:
        yield Row(worker, "device", State.NOTE, "free as far as can be seen: processes of other users are hidden")
    else:
        yield Row(worker, "device", State.OK, "free")


def _held(worker: int, holder: Holder, answer: Readiness, about: Slice) -> Row:
    what = f"held by {_who(holder)} ({', '.join(sorted(set(holder.paths)))})"
    if holder.run and answer.alive and holder.run == answer.run_id:
        return Row(worker, "device", State.OK, f"in use by run {holder.run}, which lives")
    if holder.run:
        return Row(worker, "device", State.REPAIR, f"{what}, left by run {holder.run}", "ended before the start")
    ended = f"{about.ssh} --worker {worker} --command 'sudo kill {holder.pid}'"
    fix = f"it is no run of tpuops: let {holder.user or 'its owner'} end it, or {ended}"
    return Row(worker, "device", State.BAD, what, fix, IN_USE)


def _who(holder: Holder) -> str:
    since = f" since {holder.since:%Y-%m-%d %H:%M:%S} UTC" if holder.since else ""
    if not holder.pid:
        return "a process that cannot be seen from the run's user"
    return f"process {holder.pid} of {holder.user}{since}: {holder.command or '(no command)'}"


def _lock(worker: int, answer: Readiness, _about: Slice) -> Iterator[Row]:
    """A lock file that nobody holds is in the way only where the run's user cannot take it."""
    if answer.lock is None or answer.holders:
        return
    if answer.lock.usable:
        yield Row(worker, "lock file", State.OK, "nobody holds it")
    else:
        what = f"libtpu's lock file is {answer.lock.user}'s, and nobody holds it"
        yield Row(worker, "lock file", State.REPAIR, what, "removed before the start")


def _disks(worker: int, answer: Readiness, _about: Slice) -> Iterator[Row]:
    faults = [row for disk in answer.disks for row in _disk(worker, disk)]
    yield from faults
    if not faults:
        free = min((disk.free for disk in answer.disks if disk.folder != MEMORY), default=0)
        yield Row(worker, "disk", State.OK, f"{_size(free)} free")


def _disk(worker: int, disk: Space) -> Iterator[Row]:
    clear = f"make room in {disk.folder}: `du -xh --max-depth=2 {disk.folder} | sort -h | tail` shows what is large"
    if disk.problem:
        what = f"{disk.folder} cannot be written to: {disk.problem}"
        yield Row(worker, "disk", State.BAD, what, clear, "disk_full")
    elif 0 <= disk.nodes_free < LEAST_NODES:
        what = f"{disk.folder} has {disk.nodes_free} file nodes left"
        yield Row(worker, "disk", State.BAD, what, "remove many small files there", "disk_full")
    elif disk.folder == MEMORY:
        if disk.free < LEAST_BYTES // 16:
            yield Row(worker, "disk", State.NOTE, f"{disk.folder} has {_size(disk.free)} left", clear)
    elif disk.free < LEAST_BYTES:
        yield Row(worker, "disk", State.BAD, f"{disk.folder} has {_size(disk.free)} left", clear, "disk_full")
    elif disk.free < FEW_BYTES:
        yield Row(worker, "disk", State.NOTE, f"{disk.folder} has only {_size(disk.free)} left", clear)


def _size(count: int) -> str:
    for unit, size in (("TB", 1 << 40), ("GB", 1 << 30), ("MB", 1 << 20)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"


def _clock(worker: int, answer: Readiness, _about: Slice) -> Iterator[Row]:
    ahead = answer.clock_s
    if ahead is None:
        return
    if abs(ahead) <= CLOCK_S:
        yield Row(worker, "clock", State.OK, "right")
    else:
        what = f"{abs(ahead):.0f} s {'ahead' if ahead > 0 else 'behind'} of Cloud Storage's"
        yield Row(worker, "clock", State.NOTE, what, "sudo systemctl restart chrony, or sudo timedatectl set-ntp true")


def _bucket(worker: int, answer: Readiness, about: Slice) -> Iterator[Row]:
    """Read and write with the worker's own identity; a removal that is forbidden breaks every overwriting too."""
    troubles = answer.stored.troubles
    if not troubles:
        yield Row(worker, "bucket", State.OK, "written, read and removed by its own identity")
        return
    (verb, said), *_ = troubles.items()
    who = answer.stored.account or "its service account"
    what = f"{who} cannot {verb} in gs://{about.bucket}: {said}"
    if verb == "remove" and "retention" in said.lower():
        yield Row(worker, "bucket", State.NOTE, what, "objects stay for the bucket's retention period")
        return
    yield Row(worker, "bucket", State.BAD, what, *_bucket_fix(said, who, about))


def _bucket_fix(said: str, who: str, about: Slice) -> tuple[str, str]:
    """How it is mended, and the class: by the service's own words."""
    words = said.lower()
    if "scope" in words:
        return f"its access scopes are too narrow and are set when it is made: {about.anew}", "insufficient_scopes"
    if " 403 " in f" {words} " or " 401 " in f" {words} " or "forbidden" in words:
        member = f"serviceAccount:{who}" if "@" in who else "serviceAccount:ITS_ACCOUNT"
        role = f"--member={member} --role=roles/storage.objectAdmin"
        return f"gcloud storage buckets add-iam-policy-binding gs://{about.bucket} {role}", "gcs_permission"
    if " 404 " in f" {words} ":
        return "the bucket is gone: `tpuops up` makes it again", "checkpoint_missing"
    return "the way to Cloud Storage, or the service, failed; it is tried again", "gcs_transient"


def _code(said: Mapping[int, Readiness]) -> Iterator[Row]:
    common = _usual(answer.source for answer in said.values())
    for worker, answer in said.items():
        if answer.source == common:
            yield Row(worker, "code", State.OK, f"source {common[:12]}" if common else "none yet")
        else:
            what = f"source {answer.source[:12] or 'none'}, where others have {common[:12] or 'none'}"
            yield Row(worker, "code", State.BAD, what, "`tpuops train` sends the source to all", "version_mismatch")


def _versions(said: Mapping[int, Readiness]) -> Iterator[Row]:
    """The same packages everywhere: workers that differ hang or fail at their first meeting."""
    names = sorted({name for answer in said.values() for name in answer.versions})
    common = {name: _usual(answer.versions.get(name, "") for answer in said.values()) for name in names}
    for worker, answer in said.items():
        differ = [name for name in names if answer.versions.get(name, "") != common[name]]
        if not differ:
            listed = " ".join(f"{name} {version}" for name, version in sorted(answer.versions.items()))
            yield Row(worker, "versions", State.OK, listed or "not told")
            continue
        told = ", ".join(
            f"{name} {answer.versions.get(name) or 'missing'} (others {common[name] or 'none'})" for name in differ
        )
        fix = "pin exact versions in train.setup, and make the differing worker's setup run again"
        yield Row(worker, "versions", State.BAD, told, fix, "version_mismatch")


def _usual(values: Iterable[str]) -> str:
    """The most frequent value; of equals the first worker's."""
    listed = list(values)
    return max(dict.fromkeys(listed), key=listed.count, default="")


def _link(said: Mapping[int, Readiness], about: Slice) -> Iterator[Row]:
    first = said.get(0)
    heard = first.link.heard if first and first.link else ()
    shared = bool(first and first.link and first.link.shared)
    rule = f"a firewall rule must let the network's own machines reach each other, at least on tcp:{PORT}"
    for worker, answer in said.items():
        link = answer.link
        if link is None or (first and first.link is None):
            continue  # not asked, or a run has the port
        if shared or link.shared:
            what = f"another look at this slice had port {PORT} all the while"
            yield Row(worker, "ports", State.NOTE, what, "look again once that one has ended")
        elif link.port_taken:
            shown = f"{about.ssh} --worker {worker} --command \"sudo ss -ltnp 'sport = :{PORT}'\" names who"
            yield Row(worker, "ports", State.BAD, f"port {PORT} is taken on it", shown, "network_config")
        elif link.problem:
            what = f"cannot reach worker 0 on port {PORT}: {link.problem}" if worker else link.problem
            yield Row(worker, "ports", State.BAD, what, rule, "network_config")
        elif worker and first and worker not in heard:
            yield Row(worker, "ports", State.BAD, "worker 0 never heard it", rule, "network_config")
        else:
            yield Row(worker, "ports", State.OK, f"workers meet on port {PORT}")
