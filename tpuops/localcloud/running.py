"""One running machine as the cloud holds it: its sandbox process, the line to its program, and its certain end."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import signal
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from .doorway import Doorway
from .network import listening
from .sandbox import Sandbox, argv, wall, wall_file

_PIPE = asyncio.subprocess.PIPE
_LONGEST_LINE = 1 << 22
_ADDRESS_WAIT_S = 2.0
_ENOUGH_REASON = 300


class Running:
    """A machine between its start and its end."""

    def __init__(self, process: asyncio.subprocess.Process, first: int, console: Path) -> None:
        self._process = process
        self._first = first
        self._console = console
        self._ended_by_us = False
        self._number = 0
        self._questions: dict[int, asyncio.Future[Mapping[str, Any]]] = {}
        self._listening: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int:
        """The sandbox's process id on the host."""
        return self._process.pid

    def listen(self, heard: Callable[[Mapping[str, Any]], None], crashed: Callable[[str], None]) -> None:
        """Pass on every notice, and the end unless `end` caused it."""
        self._listening = asyncio.create_task(self._listen(heard, crashed))

    async def ask(self, order: Mapping[str, Any], wait_s: float) -> Mapping[str, Any]:
        """Give an order and wait for its answer, `{"ignored": ...}` where none comes within `wait_s` seconds."""
        self._number += 1
        answer: asyncio.Future[Mapping[str, Any]] = asyncio.get_running_loop().create_future()
        self._questions[number := self._number] = answer
        try:
            self.tell({**order, "n": number})
            return await asyncio.wait_for(answer, wait_s)
        except TimeoutError:
            return {"ignored": f"no answer within {wait_s} s"}
        finally:
            self._questions.pop(number, None)

    def tell(self, words: Mapping[str, Any]) -> None:
        """Send one line; lost where the machine has just ended."""
        assert self._process.stdin is not None
        if not self._process.stdin.is_closing():
            self._process.stdin.write(json.dumps(words).encode() + b"\n")

    async def end(self) -> None:
        """Kill it; returns when no process of it is left and its sockets are closed.

        Its first process is killed, not the sandbox's outer one: the kernel lets a first process go only after all
        others in its process space, and the outer one waits for that.
        """
        self._ended_by_us = True
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._first, signal.SIGKILL)
        await self._process.wait()
        os.close(self._first)
        if self._listening is not None:
            await self._listening

    async def _listen(self, heard: Callable[[Mapping[str, Any]], None], crashed: Callable[[str], None]) -> None:
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            words = json.loads(line)
            if "answer" in words:
                self._answered(words)
            else:
                heard(words)
        if not self._ended_by_us:  # its program ended; whatever else still runs there goes with it
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._first, signal.SIGKILL)
        status = await self._process.wait()
        for question in self._questions.values():
            if not question.done():
                question.set_result({"ignored": "it ended"})
        if not self._ended_by_us:
            os.close(self._first)
            crashed(self._reason(status))

    def _answered(self, words: Mapping[str, Any]) -> None:
        question = self._questions.get(words["answer"])
        if question is not None and not question.done():
            question.set_result(words["result"])

    def _reason(self, status: int) -> str:
        lines = self._console.read_text(errors="replace").strip().splitlines() if self._console.exists() else []
        last = lines[-1][:_ENOUGH_REASON] if lines else "it said nothing"
        return f"the machine's first process ended ({status}): {last}"


async def launch(
    bwrap: str, sandbox: Sandbox, address: tuple[str, int], boot: Mapping[str, Any], console: Path
) -> Running:
    """Start the machine's sandbox with its sshd's socket in hand; OSError where that cannot be."""
    listener = await _listener(address)
    way = Doorway(boot["cloud_port"]) if sandbox.closed else None
    given = [listener, *([way.inside] if way else [])]
    told, tells = os.pipe()
    options = wall_file(wall(sandbox, tells))
    try:
        with console.open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                *argv(sandbox, options, bwrap), stdin=_PIPE, stdout=_PIPE, stderr=log, limit=_LONGEST_LINE,
                pass_fds=(*(each.fileno() for each in given), tells, options), env={}, cwd="/", start_new_session=True,
            )  # fmt: skip
        os.close(tells)
        tells = -1
        first = await _first_process(told, process, console)
    finally:
        numbers = [each.fileno() for each in given]
        for each in given:
            each.close()  # the machine holds the only copy: its end closes the port
        for descriptor in (told, tells, options):
            if descriptor >= 0:
                os.close(descriptor)
    running = Running(process, first, console)
    running.tell({**boot, "listener": numbers[0], "way": numbers[1] if way else None})
    return running


async def _listener(address: tuple[str, int]) -> socket.socket:
    """The machine's port; a predecessor on the same address may need a moment to be gone."""
    deadline = asyncio.get_running_loop().time() + _ADDRESS_WAIT_S
    while True:
        try:
            return listening(*address)
        except OSError as taken:
            if taken.errno != errno.EADDRINUSE or asyncio.get_running_loop().time() > deadline:
                raise
        await asyncio.sleep(0.05)


async def _first_process(told: int, process: asyncio.subprocess.Process, console: Path) -> int:
    """A handle on the first process inside, from what bubblewrap says of it."""
    words = await asyncio.to_thread(_read_all, told)
    try:
        return os.pidfd_open(json.loads(words)["child-pid"])
    except (ValueError, KeyError, ProcessLookupError) as unsaid:
        await process.wait()
        said = console.read_text(errors="replace").strip().splitlines()
        raise OSError(f"the sandbox did not start: {said[-1] if said else process.returncode}") from unsaid


def _read_all(descriptor: int) -> bytes:
    words = b""
    while chunk := os.read(descriptor, 4096):
        words += chunk
    return words
