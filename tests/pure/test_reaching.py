"""Waiting for a machine and its key in virtual time; what a failed connection means; keys written beside ours."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tpuops.errors import AccessError, Conflict, TpuopsError, Unreachable
from tpuops.facts.entries import Entry, added, entries, entry, of_key
from tpuops.journal import Journal
from tpuops.remote.port import Barrier, NotConnected
from tpuops.resources import Node, Place, Worker
from tpuops.stages import access, refusal
from tpuops.stages.access import Lost, Route, list_on_node, reach
from tpuops.stages.apply import Crew
from tpuops.stages.refusal import Sight, told_apart

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
OURS = Entry("tpuops", "ssh-ed25519 AAAAours", NOW + timedelta(days=2))
MATE = 'bob:ssh-rsa AAAAbob google-ssh {"userName":"bob","expireOn":"2020-01-01T00:00:00+0000"}'
PLACE = Place("p", "us-central1-a")


class Clock:
    def __init__(self) -> None:
        self.s = 0.0

    def now(self) -> datetime:
        return NOW + timedelta(seconds=self.s)

    def monotonic(self) -> float:
        return self.s

    def elapsed(self) -> float:
        return self.s

    async def sleep(self, seconds: float) -> None:
        self.s += seconds


class Cloud:
    """One node; `meddle` is somebody who writes its metadata just before we do."""

    def __init__(self, keys: str = "", meddle: list[str] | None = None) -> None:
        self.metadata, self.meddle, self.writes = {"ssh-keys": keys, "other": "stays"}, meddle or [], 0
        self.project: dict[str, str] = {}
        self.state, self.busy = "READY", 0

    async def node(self, place: Place, name: str) -> Node:
        worker = Worker(0, "10.0.0.2", "34.1.2.3")
        return Node(
            name, place, "7", self.state, "HEALTHY", "v3-8", "r", False, {}, (worker,), NOW, dict(self.metadata)
        )

    async def host_keys(self, place: Place, node: str, worker: int) -> tuple[str, ...]:
        return ("ssh-ed25519 AAAA",)

    async def project_metadata(self, project: str) -> dict[str, str]:
        return self.project

    async def set_node_metadata(self, place: Place, name: str, metadata: dict[str, str]) -> dict[str, str]:
        self.writes += 1
        if self.busy:
            self.busy -= 1
            raise Conflict("another change is under way")
        return metadata

    async def wait(self, metadata: dict[str, str], timeout_s: float) -> None:
        self.metadata = metadata
        if self.meddle:
            self.metadata = {**self.metadata, "ssh-keys": self.meddle.pop(0)}


class Connector:
    """Lets nobody in before `from_s`; each try takes what it is given."""

    def __init__(self, clock: Clock, from_s: float, barrier: Barrier = Barrier.KEY) -> None:
        self.clock, self.from_s, self.barrier = clock, from_s, barrier

    async def connect(self, host: object, timeout_s: float) -> str:
        if self.clock.s + timeout_s < self.from_s:
            self.clock.s += timeout_s
            raise NotConnected("no connection", barrier=self.barrier, evidence=["PermissionDenied"])
        self.clock.s = max(self.clock.s, self.from_s)
        return "agent"


def crew(cloud: Cloud, clock: Clock) -> Crew:
    async def fence() -> None:
        return None

    return Crew(cloud, fence, clock, Journal(clock, None))  # type: ignore[arg-type]


ROUTE = Route("tpuops", key=OURS.public)


async def reached(cloud: Cloud, clock: Clock, connector: Connector) -> object:
    node = await cloud.node(PLACE, "n")
    return await reach(cloud, connector, node, ROUTE, clock)  # type: ignore[arg-type]


@pytest.mark.parametrize("after_s", [0.0, 55.0, 110.0, 500.0])
async def test_a_key_that_appears_late_still_works(after_s: float) -> None:
    clock = Clock()
    assert await reached(Cloud(OURS.line), clock, Connector(clock, after_s)) == "agent"
    assert after_s <= clock.s < after_s + 1


@pytest.mark.parametrize("greets_s", [12.0, 25.0, 39.0])
async def test_a_machine_that_is_slow_to_greet_is_waited_for(greets_s: float) -> None:
    clock = Clock()
    connector = Connector(clock, 9999, Barrier.BROKEN)
    inner = connector.connect

    async def connect(host: object, timeout_s: float) -> str:
        if timeout_s < greets_s:
            return await inner(host, timeout_s)
        clock.s += greets_s
        return "agent"

    connector.connect = connect  # type: ignore[method-assign]
    assert await reached(Cloud(OURS.line), clock, connector) == "agent"
    assert clock.s < 10 + 20 + greets_s + 2


async def test_what_no_wait_will_mend_is_not_waited_for() -> None:
    clock, cloud = Clock(), Cloud(OURS.line)
    cloud.project = {"enable-oslogin": "TRUE"}
    with pytest.raises(AccessError) as refused:
        await reached(cloud, clock, Connector(clock, 9999))
    assert refused.value.kind == "ssh-os-login"
    assert access.SURELY_REFUSED_S < clock.s < access.SURELY_REFUSED_S + 30


async def test_a_machine_that_goes_meanwhile_is_lost_and_no_ssh_problem() -> None:
    clock, cloud = Clock(), Cloud(OURS.line)
    connector = Connector(clock, 9999, Barrier.SILENT)
    inner = connector.connect

    async def connect(host: object, timeout_s: float) -> str:
        cloud.state = "PREEMPTED"
        return await inner(host, timeout_s)

    connector.connect = connect  # type: ignore[method-assign]
    assert isinstance(await reached(cloud, clock, connector), Lost)


async def test_at_the_end_it_says_what_stood_in_the_way() -> None:
    clock = Clock()
    with pytest.raises(refusal.SshFiltered) as told:
        await reached(Cloud(OURS.line), clock, Connector(clock, 9999, Barrier.SILENT))
    assert told.value.evidence[0] == "PermissionDenied"
    assert "tried for 600 s" in told.value.evidence[-1]


SIGHT = Sight(
    "n-0", "34.1.2.3", "tpuops", Barrier.KEY, ("said",), 20, "READY", True, NOW - timedelta(hours=2), NOW, project="p"
)
LATE = replace(OURS, expires=NOW - timedelta(hours=1))
SEEN: list[tuple[dict[str, object], type[TpuopsError], str, str]] = [
    ({"runs": False, "state": "PREEMPTED"}, refusal.MachineDown, "", "tpuops up"),
    ({"runs": False, "state": ""}, refusal.MachineDown, "", "tpuops up"),
    ({"barrier": Barrier.SILENT}, refusal.SshFiltered, "", "firewall-rules create"),
    ({"barrier": Barrier.NO_ROUTE, "way": "internal"}, refusal.SshFiltered, "", "inside the network"),
    ({"barrier": Barrier.CLOSED}, refusal.SshNotListening, "", "stop and start"),
    ({"barrier": Barrier.BROKEN}, refusal.SshBrokenOff, "", "try again"),
    ({"entries": (OURS,)}, refusal.SshKeyPending, "", "minute or two"),
    ({"entries": (LATE,)}, AccessError, "ssh-key-expired", "add this machine's key"),
    ({"entries": (LATE, OURS)}, refusal.SshKeyPending, "", "guest agent"),
    ({"entries": (replace(OURS, user="carol"),)}, AccessError, "ssh-user", "add this machine's key"),
    ({}, AccessError, "ssh-key-unknown", "add this machine's key"),
    ({"os_login": True, "entries": (OURS,)}, AccessError, "ssh-os-login", "login: os-login"),
    ({"login": "os-login", "os_login": True}, AccessError, "ssh-os-login-refused", "roles/compute.osAdminLogin"),
    ({"barrier": Barrier.PROXY}, refusal.TunnelBroken, "", "start-iap-tunnel"),
    (
        {"barrier": Barrier.PROXY, "said": ("Error while connecting [4003: 'failed to connect to backend'].",)},
        refusal.TunnelBroken,
        "",
        "35.235.240.0/20",
    ),
    (
        {"barrier": Barrier.PROXY, "said": ("ERROR: [Handshake status 403 Forbidden]. (May be due to missing perm",)},
        AccessError,
        "iap-forbidden",
        "roles/iap.tunnelResourceAccessor",
    ),
    (
        {"barrier": Barrier.PROXY, "said": ("You do not currently have an active account selected.",)},
        AccessError,
        "gcloud-no-login",
        "gcloud auth login",
    ),
    ({"barrier": Barrier.PROXY, "said": ("sh: 1: exec: gcloud: not found",)}, AccessError, "gcloud-missing", "install"),
]


@pytest.mark.parametrize(("seen", "meant", "kind", "hint"), SEEN)
def test_a_refused_connection_is_told_apart(
    seen: dict[str, object], meant: type[TpuopsError], kind: str, hint: str
) -> None:
    found = told_apart(replace(SIGHT, **seen))  # type: ignore[arg-type]
    assert type(found) is meant
    assert getattr(found, "kind", "") == kind
    assert hint in found.hint
    assert any("the API says" in line for line in found.evidence)
    assert isinstance(found, Unreachable) is (found.exit_code == 5)


def test_every_barrier_has_its_answer_and_a_young_machine_is_given_a_minute() -> None:
    for barrier in Barrier:
        assert told_apart(replace(SIGHT, barrier=barrier)).hint
    young = replace(SIGHT, barrier=Barrier.CLOSED, made=NOW - timedelta(seconds=30))
    assert told_apart(young).hint.startswith("it was made just now")


async def test_our_key_is_added_and_nobody_elses_is_touched() -> None:
    clock, cloud = Clock(), Cloud(f"{MATE}\nrubbish line\n{LATE.line}\n")
    assert await list_on_node(OURS, NOW, crew(cloud, clock), await cloud.node(PLACE, "n")) is True
    assert cloud.metadata["ssh-keys"].splitlines() == [MATE, "rubbish line", OURS.line]
    assert cloud.metadata["other"] == "stays"
    assert await list_on_node(OURS, NOW, crew(cloud, clock), await cloud.node(PLACE, "n")) is False
    assert cloud.writes == 1


async def test_a_key_that_others_write_over_is_written_again() -> None:
    clock, cloud = Clock(), Cloud("", meddle=[MATE, MATE])
    cloud.busy = 1
    assert await list_on_node(OURS, NOW, crew(cloud, clock), await cloud.node(PLACE, "n")) is True
    assert cloud.metadata["ssh-keys"].splitlines() == [MATE, OURS.line]
    endless = Cloud("", meddle=[MATE] * 99)
    with pytest.raises(Conflict):
        await list_on_node(OURS, NOW, crew(endless, clock), await endless.node(PLACE, "n"))
    assert endless.writes == access.KEY_TRIES


def test_entries_are_read_and_written_as_the_guest_agent_does() -> None:
    assert entry(OURS.line) == OURS
    assert '"userName":"tpuops","expireOn":"2026-11-22T12:00:00+0000"' in OURS.line
    plain = "ann:ssh-rsa AAAA ann@host"
    assert entry(plain) == Entry("ann", "ssh-rsa AAAA")
    assert entry("ann:ssh-rsa AAAA google-ssh {broken") is None
    assert [each.user for each in entries(f"{plain}\n\nno entry\n{MATE}")] == ["ann", "bob"]
    assert of_key(f"{plain}\n{OURS.line}", OURS.public) == (OURS,)
    broken = OURS.line.replace('"}', "")
    assert added(f"{plain}\n{broken}", OURS).splitlines() == [plain, OURS.line]
