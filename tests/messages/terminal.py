"""A real terminal, 110 columns wide, for one command at a time: what a person sees, and what a person types."""

from __future__ import annotations

import re
import shlex
import subprocess
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

COLUMNS, ROWS = 110, 120
_RUN = 'trap : INT; tput clear; "$@"; printf "[exit %s]\\n" "$?"; exec cat'
_ENDED = re.compile(r"^\[exit (\d+)\]$", re.MULTILINE)


class Terminal:
    """One tmux server with one window, in which `words` run. Use as a context manager."""

    def __init__(self, words: Sequence[str], folder: Path, env: Mapping[str, str], columns: int = COLUMNS) -> None:
        self._env = {**env, "TERM": "xterm-256color"}
        self._socket = f"t{uuid.uuid4().hex[:8]}"
        command = shlex.join(["sh", "-c", _RUN, "sh", *words])
        size = ("-x", str(columns), "-y", str(ROWS))
        self._tmux("-f", "/dev/null", "new-session", "-d", *size, "-c", str(folder), command)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self._tmux("kill-server")

    def type(self, *keys: str) -> None:
        """Press keys, by tmux's names for them."""
        self._tmux("send-keys", "--", *keys)

    def screen(self) -> str:
        """What is to be seen now, without blanks at the ends of lines; a line that was wrapped at the edge is one."""
        shown = self._tmux("capture-pane", "-p", "-J", "-S", "-").splitlines()
        return "\n".join(line.rstrip() for line in shown).strip("\n") + "\n"

    def until(self, pattern: str, patience_s: float = 60.0) -> str:
        """The screen as soon as `pattern` is on it."""
        deadline = time.monotonic() + patience_s
        while not re.search(pattern, found := self.screen(), re.MULTILINE):
            assert time.monotonic() < deadline, f"never seen: {pattern}\n{found}"
            time.sleep(0.05)
        return found

    def ended(self, patience_s: float = 60.0) -> tuple[int, str]:
        """The exit code, and the whole screen before it."""
        found = self.until(_ENDED.pattern, patience_s)
        end = _ENDED.search(found)
        assert end
        return int(end[1]), found[: end.start()]

    def _tmux(self, *words: str) -> str:
        command = ["tmux", "-L", self._socket, *words]
        done = subprocess.run(command, env=self._env, capture_output=True, text=True, check=False, timeout=30)
        assert done.returncode == 0 or words[0] == "kill-server", done.stderr
        return done.stdout
