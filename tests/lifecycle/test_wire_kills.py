"""The crash sweep over the wire: commands killed as processes around one of their calls, then given again.

A kill strikes before the call takes effect, after it did and before the reply, or after the reply; the same command
follows, at every second point with the local folder gone and as if on another machine. CI tries a part that moves on
each day; TPUOPS_WIRE_KILLS=all tries every point, TPUOPS_WIRE_KILLS=3,7 those. What no call is killed at here is swept
in virtual time.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from tests.lifecycle.conftest import ENVIRONMENT, TRAINER, User, kill
from tests.lifecycle.test_local_faults import begun
from tpuops import embedded

pytestmark = [pytest.mark.wire, pytest.mark.timeout(1800)]

MADE = ("storage.buckets.insert", "storage.objects.insert", "tpu.nodes.create", "compute.instances.insert")
GONE = ("tpu.nodes.delete", "compute.instances.delete", "storage.objects.delete")
RECORD, LEAVING = "storage.objects.insert */run.json", "storage.objects.insert *run.leaving*"
KEPT = "storage.objects.get */lease.json 6"
"""A look of one that has left its lease, and waits until the machine renews it: the sixth reading of it."""
CALLS = {
    "up": (*MADE, "tpu.operations.get", "storage.objects.delete"),
    "run": (*MADE, "tpu.nodes.getGuestAttributes", "storage.objects.list", *GONE),
    "down": ("storage.objects.insert", *GONE),
    "run --detach": ("tpu.nodes.create", RECORD, LEAVING, KEPT),
}
PHASES: dict[str, dict[str, Any] | None] = {"send": {"drop_request": True}, "commit": {"delay_s": 20}, "reply": None}
POINTS = [(command, method, phase) for phase in PHASES for command, methods in CALLS.items() for method in methods]
DAILY = 4


def chosen() -> list[int]:
    """The numbers of today's points, of those that were asked for, or of all."""
    asked = os.environ.get("TPUOPS_WIRE_KILLS", "")
    if asked:
        return list(range(len(POINTS))) if asked == "all" else [int(each) for each in asked.split(",")]
    first = datetime.now(UTC).date().toordinal() * DAILY
    return sorted({(first + each) % len(POINTS) for each in range(DAILY)})


def written(user: User, name: str, steps: str) -> None:
    """One more environment; its lease counts for ten seconds, so that another machine need not wait for a minute."""
    text = ENVIRONMENT.replace("<steps>", steps).replace("<pace>", "0.02").replace("<interrupt>", "keep")
    text = text.replace("<success>", "delete").replace("<failure>", "delete") + "limits: {abandoned: 60s}\n"
    (user.folder / "environments" / f"{name}.yaml").write_text(text)


def struck(user: User, number: int, until: Callable[..., Any]) -> bool:
    """Kill the point's command around its call; whether it came to that."""
    command, call, phase = POINTS[number]
    method, resource, nth = [*call.split(), *("*", "1")[call.count(" ") :]]
    stage = embedded.status(user.state)
    assert stage is not None
    seen = max((request["n"] for request in user.requests()), default=0)
    deed = PHASES[phase]
    if deed is not None:
        fault = {"on": {"method": method, "resource": resource, "nth": int(nth)}, "do": deed}
        embedded.ask(stage, "POST", "/_cloud/faults", json.dumps([fault]).encode())

    def met() -> bool:
        if deed is None:
            met = [each["resource"] for each in user.requests(seen) if each["method"] == method]
            return sum(fnmatchcase(each, resource) for each in met) >= int(nth)
        return embedded.ask(stage, "GET", "/_cloud/faults")["faults"][-1]["fired_at"] is not None

    process = user.start(*command.split(), "--env", f"p{number}")
    until(lambda: met() or process.poll() is not None, 90)
    killed = process.poll() is None
    kill(process)
    return killed


def again(user: User, number: int, *, elsewhere: bool) -> dict[str, Any]:
    """The same command; `elsewhere`: as if from another machine, with the local folder gone."""
    words = [str(user.program), *POINTS[number][0].split(), "--env", f"p{number}", "--json"]
    if elsewhere:
        shutil.rmtree(Path(user.env["TPUOPS_STATE"]) / "local-tests" / f"p{number}")
        words = ["bwrap", "--dev-bind", "/", "/", "--unshare-uts", "--hostname", "elsewhere", *words]
    process = begun(user, words)
    out, err = process.communicate(timeout=150)
    assert b"Traceback" not in err, err.decode()
    assert process.returncode == 0, err.decode()
    return dict(json.loads(out))


def standing(user: User, name: str) -> list[str]:
    found = [each["name"].rpartition("/")[2] for kind in ("nodes", "instances") for each in user.standing()[kind]]
    return sorted(each for each in found if each in {f"tpuops-{name}-ada", f"tpuops-{name}-ada-vm"})


def wrong(user: User, number: int, until: Callable[..., Any], *, elsewhere: bool) -> list[str]:
    """What is not as it has to be after a kill at that point, and the same command again."""
    name, (command, _, phase) = f"p{number}", POINTS[number]
    if command == "down":
        user.run("up", "--env", name)
    if not struck(user, number, until) and phase != "reply":
        return ["it was over before it could be killed"]
    document = again(user, number, elsewhere=elsewhere)
    both, found = [f"tpuops-{name}-ada", f"tpuops-{name}-ada-vm"], []
    stands = standing(user, name)
    if stands != ([] if command in {"run", "down"} else both):
        found.append(f"there stand {stands}")
    if command == "run" and (document["outcome"], document["remains"]) != ("done", []):
        found.append(f"{document['outcome']}, remains {document['remains']}")
    if command == "up":
        changed = user.run("up", "--env", name)["changed"]
        found += [f"a second up changed {changed}"] * bool(changed)
        user.run("down", "--env", name)
    if command == "run --detach":
        found += detached_wrong(user, name, document)
    made = [each for each in user.requests() if each["method"] == "tpu.nodes.create" and each["status"] == 200]
    count = len([each for each in made if each["resource"].endswith(f"/tpuops-{name}-ada")])
    return found + [f"{count} nodes were made"] * (count != 1)


def detached_wrong(user: User, name: str, document: dict[str, Any]) -> list[str]:
    """The same where the run was to be left to its machine."""
    told, lease = (document["outcome"], document["attempts"], document["remains"]), user.run("lock.show", "--env", name)
    found = [f"it ended as {told}"] * (told != ("detached", 1, []))
    found += [f"the lease is {lease}"] * (not lease["lease"]["keeper"])
    user.run("down", "--yes", "--env", name)
    return found + [f"there stand {standing(user, name)} after down"] * bool(standing(user, name))


def test_a_process_killed_around_a_call_and_given_again_comes_to_the_same_end(
    user: User, until: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    user.write(TRAINER)
    user.run("cloud.start")
    broken = []
    for number in chosen():
        written(user, f"p{number}", "100000" if "--detach" in POINTS[number][0] else "60")
        try:
            found = wrong(user, number, until, elsewhere=bool(number % 2))
        except AssertionError as error:  # what the others have to say is not lost with it
            found = [str(error)]
        broken += [f"{number} {POINTS[number]}: {'; '.join(found)}"] * bool(found)
    with capsys.disabled():
        print(f"\n{len(chosen())} of {len(POINTS)} kills over the wire, {len(broken)} wrong", end=" ")
    assert not broken, "\n".join(broken)


def test_an_ended_run_whose_machines_still_stand_is_finished_from_another_machine_with_a_key_of_its_own(
    user: User, until: Callable[..., Any]
) -> None:
    user.write(TRAINER)
    user.run("cloud.start")
    number = POINTS.index(("run", "tpu.nodes.delete", "send"))
    written(user, f"p{number}", "60")
    assert wrong(user, number, until, elsewhere=True) == []
