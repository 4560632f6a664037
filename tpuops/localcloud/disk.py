"""A machine's disk: the folder on the host that holds everything the machine may write, and what is laid over it.

`disk/` is the machine's own and stays over stop and start; `boot/` holds files the cloud writes afresh at each boot and
the machine sees read-only. The folder is 0700: what a machine puts there (a set-uid file, say) reaches nobody else.
"""

from __future__ import annotations

import shutil
import site
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .google_hosts import hosts_file
from .package_index import PackageIndex
from .sandbox import Bind, exposes

REHEARSAL = "/opt/rehearsal"
PYTHON = "/opt/python"
_OWN = ("home", "root", "etc", "var", "opt", "srv", "mnt", "tmp")
_VAR = ("log", "lib", "cache", "spool")
_HOST_ETC = (
    "alternatives", "bash.bashrc", "ca-certificates", "ca-certificates.conf", "crypto-policies", "inputrc",
    "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "magic", "mime.types", "pki/ca-trust", "pki/tls/certs",
    "pki/tls/openssl.cnf", "protocols", "services", "ssl/certs", "ssl/openssl.cnf", "terminfo",
)  # fmt: skip
_PREFIX_PARTS = ("bin", "lib", "lib64", "include", "libexec", "ssl", "pyvenv.cfg")
_PROFILE = 'PS1="\\u@\\h:\\w\\$ "\n[ -n "$BASH" ] && [ -r /etc/bash.bashrc ] && . /etc/bash.bashrc\n'
_NSSWITCH = "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n"
_SUDO = """#!/bin/bash
# imitated: in a rehearsal every user already is the machine's root; options of sudo are passed over
while [ $# -gt 0 ]; do
  case "$1" in
    --) shift; break ;;
    -u|-g|-h|-p|-C|-T|-U) shift 2 ;;
    -i|-s|--login|--shell) shell=1; shift ;;
    -*) shift ;;
    *=*) export "$1"; shift ;;
    *) break ;;
  esac
done
[ $# -eq 0 ] && [ -n "$shell" ] && exec bash -l
[ $# -eq 0 ] && exit 0
exec "$@"
"""
_PIP = f'#!/bin/bash\n{PYTHON}/bin/python -c "import pip" 2>/dev/null || {PYTHON}/bin/python -m ensurepip -q\n'
_PIP += f'exec {PYTHON}/bin/python -m pip "$@"\n'


@dataclass(frozen=True, slots=True)
class Interpreter:
    """The host's Python that machines share: its prefixes, its packages, and the program itself."""

    executable: Path = Path(sys.executable)
    prefix: Path = Path(sys.prefix)
    base_prefix: Path = Path(sys.base_prefix)
    version: str = f"{sys.version_info.major}.{sys.version_info.minor}"
    packages: tuple[str, ...] = tuple(site.getsitepackages())

    def binds(self, hidden: tuple[Path, ...]) -> Iterator[Bind]:
        """Program folders below both prefixes, wherever they lie; nothing else that lies beside them."""
        seen = set()
        for prefix in (self.prefix, self.base_prefix, self.prefix.resolve(), self.base_prefix.resolve()):
            if prefix in seen or prefix.is_relative_to("/usr"):
                continue
            seen.add(prefix)
            parts = (prefix / part for part in _PREFIX_PARTS)
            yield from (Bind(part, str(part)) for part in parts if part.exists() and not _reveals(part, hidden))


def _reveals(source: Path, hidden: tuple[Path, ...]) -> bool:
    return any(exposes(source, secret) for secret in hidden)


@dataclass(frozen=True, slots=True)
class Disk:
    """The disk of one machine, at `folder`."""

    folder: Path

    @property
    def console(self) -> Path:
        """What the machine's first program printed outside its line to the cloud."""
        return self.folder / "console.log"

    def prepare(self, hostname: str, address: str, index: PackageIndex, interpreter: Interpreter) -> None:
        """Make what is missing, empty /tmp, and write the files of this boot."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.folder.chmod(0o700)
        remove(self.folder / "disk/tmp")
        for name in (*_OWN, *(f"var/{part}" for part in _VAR), "var/tmp"):
            (self.folder / "disk" / name).mkdir(parents=True, exist_ok=True)
        for name in ("tmp", "var/tmp"):
            (self.folder / "disk" / name).chmod(0o1777)
        self._lay_python(interpreter)
        self._write_boot_files(hostname, address, index)

    def binds(self, hidden: tuple[Path, ...]) -> Iterator[Bind]:
        """Own folders first, then what the host lends, then this boot's files."""
        yield from (Bind(self.folder / "disk" / name, f"/{name}", writable=True) for name in _OWN)
        for name in _HOST_ETC:
            source = Path("/etc") / name
            if source.exists() and not _reveals(source, hidden):
                yield Bind(source.resolve(), str(source))
        boot = self.folder / "boot"
        yield from (Bind(file, f"/etc/{file.name}") for file in sorted((boot / "etc").iterdir()))
        yield Bind(boot / "bin", f"{REHEARSAL}/bin")
        here = Path(__file__).parent
        yield Bind(here / "machine", f"{REHEARSAL}/lib/machine")
        yield Bind(here / "rehearsal" / "sitecustomize.py", f"{REHEARSAL}/site/sitecustomize.py")

    def _write_boot_files(self, hostname: str, address: str, index: PackageIndex) -> None:
        etc = self.folder / "boot" / "etc"
        etc.mkdir(parents=True, exist_ok=True)
        resolver = Path("/etc/resolv.conf")
        texts = {
            "hosts": hosts_file(hostname, address),
            "hostname": f"{hostname}\n",
            "nsswitch.conf": _NSSWITCH,
            "resolv.conf": resolver.read_text() if resolver.exists() else "",
            "profile": _PROFILE,
            "pip.conf": index.pip_conf,
        }
        for name, text in texts.items():
            (etc / name).write_text(text)
        shims = self.folder / "boot" / "bin"
        shims.mkdir(exist_ok=True)
        (shims / "sudo").write_text(_SUDO)
        (shims / "sudo").chmod(0o755)

    def _lay_python(self, interpreter: Interpreter) -> None:
        """An own virtual environment over the host's packages: what the machine installs lands on its disk."""
        venv = self.folder / "disk" / PYTHON.removeprefix("/")
        packages = venv / "lib" / f"python{interpreter.version}" / "site-packages"
        if (venv / "bin" / "pip3").exists():
            return
        packages.mkdir(parents=True, exist_ok=True)
        binaries = venv / "bin"
        binaries.mkdir(exist_ok=True)
        base = interpreter.executable.resolve()
        (venv / "pyvenv.cfg").write_text(f"home = {base.parent}\ninclude-system-site-packages = false\n")
        (packages / "rehearsal.pth").write_text("\n".join((f"{REHEARSAL}/site", *interpreter.packages)) + "\n")
        for name in ("python", "python3", f"python{interpreter.version}"):
            (binaries / name).unlink(missing_ok=True)
            (binaries / name).symlink_to(base)
        for name in ("pip", "pip3"):
            (binaries / name).write_text(_PIP)
            (binaries / name).chmod(0o755)


def remove(folder: Path) -> None:
    """Delete the tree, folders that forbid it included; nothing where it is gone."""

    def permit(function: Callable[..., Any], path: str, failure: Any) -> None:
        if issubclass(failure[0], FileNotFoundError):
            return
        with suppress(OSError):
            for locked in (Path(path).parent, Path(path)):
                if not locked.is_symlink() and locked.is_relative_to(folder):
                    locked.chmod(stat.S_IRWXU)
            function(path)

    if folder.is_symlink():
        folder.unlink()
        return
    shutil.rmtree(folder, onerror=permit)
    if folder.exists():  # a folder that could not even be listed was opened above; the second pass empties it
        shutil.rmtree(folder)
