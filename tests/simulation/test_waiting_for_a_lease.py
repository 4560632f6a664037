"""Who asked to wait waits for a living holder of the lease as long as was asked, says so seldom, then is refused."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from tests.simulation.loop import VirtualClock
from tests.simulation.test_versions import NAME, on_a_bucket
from tpuops import switch
from tpuops.cloud.port import ObjectStore
from tpuops.errors import Busy
from tpuops.journal import Event, Journal
from tpuops.stages import holders, lease

HELD_S = 300.0


def met(wait_s: float, host: str) -> dict[str, Any]:
    """A holder on `host` lets go after `HELD_S`; what became of somebody here who came at once."""
    said: list[Event] = []
    clock = VirtualClock()
    quiet, heard = Journal(clock, None), Journal(clock, None, (said.append,))

    async def act(store: ObjectStore) -> dict[str, Any]:
        holder = replace(holders.myself("bob", "run", clock), host=host)
        held = await lease.take(store, NAME, holder, clock, quiet)
        leaving = asyncio.get_running_loop().create_task(_later(held))
        began, error = clock.monotonic(), ""
        try:
            taken = await lease.take(store, NAME, holders.myself("ada", "run", clock), clock, heard, wait_s)
            await taken.check()
            await taken.release()
        except Busy as refused:
            error = f"{refused.message}; {refused.hint}"
        after_s = clock.monotonic() - began
        leaving.cancel()
        with suppress(asyncio.CancelledError):
            await leaving
        await held.release()
        return {"error": error, "after_s": after_s, "said": [event.kind for event in said]}

    return dict(on_a_bucket(act))


async def _later(held: lease.Lease) -> None:
    await asyncio.sleep(HELD_S)
    await held.release()


@pytest.mark.parametrize("host", ["elsewhere", holders.here()])
@pytest.mark.parametrize(("wait_s", "ends"), [(0.0, "refused"), (120.0, "refused"), (600.0, "taken")])
def test_a_living_holder_is_waited_for_as_long_as_was_asked(wait_s: float, ends: str, host: str) -> None:
    seen = met(wait_s, host)
    if ends == "taken":
        assert seen["error"] == ""
        assert HELD_S <= seen["after_s"] < HELD_S + 3 * lease.LOOK_S
    else:
        assert f"held by bob on {host}" in seen["error"] and "--wait SECONDS" in seen["error"]
        assert wait_s <= seen["after_s"] < wait_s + switch.TTL_S
    assert set(seen["said"]) <= {"lease.wait"}
    assert len(seen["said"]) <= 1 + seen["after_s"] / lease.SAY_S
