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
from pathlib import Path
from typing import Any

import pytest

from tests.lifecycle.conftest import ENVIRONMENT, TRAINER, User, kill
from tests.lifecycle.test_local_faults import begun
from tpuops import embedded

pytestmark = [pytest.mark.wire, pytest.mark.timeout(1800)]

MADE = ("storage.buckets.insert", "storage.objects.insert", "tpu.nodes.create", "compute.instances.insert")
GONE = ("tpu.nodes.delete", "compute.instances.delete", "storage.objects.delete")
CALLS = {
    "up": (*MADE, "tpu.operations.get", "storage.objects.delete"),
    "run": (*MADE, "tpu.nodes.getGuestAttributes", "storage.objects.list", *GONE),
    "down": ("storage.objects.insert", *GONE),
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


def written(user: User, name: str) -> None:
    """One more environment; its lease counts for ten seconds, so that another machine need not wait for a minute."""
    text = ENVIRONMENT.replace("<steps>", "60").replace("<pace>", "0.02").replace("<interrupt>", "keep")
    text = text.replace("<success>", "delete").replace("<failure>", "delete") + "limits: {abandoned: 60s}\n"
    (user.folder / "environments" / f"{name}.yaml").write_text(text)


def struck(user: User, number: int, until: Callable[..., Any]) -> bool:
    """Kill the point's command around its call; whether it came to that."""
    command, method, phase = POINTS[number]
    stage = embedded.status(user.state)
    assert stage is not None
    seen = max((request["n"] for request in user.requests()), default=0)
    deed = PHASES[phase]
    if deed is not None:
        fault = {"on": {"method": method}, "do": deed}
        embedded.ask(stage, "POST", "/_cloud/faults", json.dumps([fault]).encode())

    def met() -> bool:
        if deed is None:
            return any(request["method"] == method for request in user.requests(seen))
        return embedded.ask(stage, "GET", "/_cloud/faults")["faults"][-1]["fired_at"] is not None

    process = user.start(command, "--env", f"p{number}")
    until(lambda: met() or process.poll() is not None, 90)
    killed = process.poll() is None
    kill(process)
    return killed


def again(user: User, number: int) -> dict[str, Any]:
    """The same command, at every second point as if from another machine."""
    words = [str(user.program), POINTS[number][0], "--env", f"p{number}", "--json"]
    if number % 2:
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


def wrong(user: User, number: int, until: Callable[..., Any]) -> list[str]:
    """What is not as it has to be after a kill at that point."""
    name, (command, _, phase) = f"p{number}", POINTS[number]
    if command == "down":
        user.run("up", "--env", name)
    if not struck(user, number, until) and phase != "reply":
        return ["it was over before it could be killed"]
    document = again(user, number)
    both, found = [f"tpuops-{name}-ada", f"tpuops-{name}-ada-vm"], []
    stands = standing(user, name)
    if stands != (both if command == "up" else []):
        found.append(f"there stand {stands}")
    if command == "run" and (document["outcome"], document["remains"]) != ("done", []):
        found.append(f"{document['outcome']}, remains {document['remains']}")
    if command == "up":
        changed = user.run("up", "--env", name)["changed"]
        found += [f"a second up changed {changed}"] * bool(changed)
        user.run("down", "--env", name)
    made = [each for each in user.requests() if each["method"] == "tpu.nodes.create" and each["status"] == 200]
    count = len([each for each in made if each["resource"].endswith(f"/tpuops-{name}-ada")])
    return found + [f"{count} nodes were made"] * (count != 1)


def test_a_process_killed_around_a_call_and_given_again_comes_to_the_same_end(
    user: User, until: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    user.write(TRAINER)
    user.run("cloud.start")
    broken = []
    for number in chosen():
        written(user, f"p{number}")
        found = wrong(user, number, until)
        broken += [f"{number} {POINTS[number]}: {'; '.join(found)}"] * bool(found)
    with capsys.disabled():
        print(f"\n{len(chosen())} of {len(POINTS)} kills over the wire, {len(broken)} wrong", end=" ")
    assert not broken, "\n".join(broken)
