"""A signal while the lease is being given back takes nothing from what the command found."""

from __future__ import annotations

import asyncio

import pytest

from tpuops.lifecycle.site import _undisturbed


@pytest.mark.parametrize("signals", [1, 3])
async def test_what_remains_is_still_told(signals: int) -> None:
    asked, answered, released = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def release() -> None:
        asked.set()
        await answered.wait()
        released.set()

    async def command() -> str:
        await _undisturbed(release())
        return "node n remains"

    running = asyncio.ensure_future(command())
    await asked.wait()
    for _ in range(signals):
        running.cancel()
        await asyncio.sleep(0)
    answered.set()
    assert await running == "node n remains"
    assert released.is_set()


async def test_what_goes_wrong_there_is_raised() -> None:
    async def release() -> None:
        raise OSError("no network")

    with pytest.raises(OSError, match="no network"):
        await _undisturbed(release())
