"""What a machine may know of the host's Python package index, so that `pip install` in a set-up step works.

Reads pip's own configuration files and `PIP_*` variables (pip.pypa.io, configuration) and passes on where packages come
from, the certificates that prove it and the proxies on the way. Passwords in addresses are cut out, client keys are
never passed on. It copies no file: folders and certificates are bound read-only.
"""

from __future__ import annotations

import configparser
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from .sandbox import Bind, exposes

_ADDRESSES = ("index-url", "extra-index-url", "find-links", "proxy")
_FILES = ("cert", "constraint")
_PLAIN = (
    "trusted-host", "no-index", "timeout", "default-timeout", "retries", "disable-pip-version-check", "prefer-binary",
    "only-binary", "no-binary", "pre",
)  # fmt: skip
_SECTIONS = ("global", "install", "download", "wheel")
_CERTIFICATES = (
    "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
)  # fmt: skip
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
_UV = ("UV_INDEX_URL", "UV_DEFAULT_INDEX", "UV_EXTRA_INDEX_URL", "UV_INDEX", "UV_FIND_LINKS")
NO_PROXY = "localhost,127.0.0.0/8,127.0.0.1,.googleapis.com,.google.internal,.google.com"


@dataclass(frozen=True, slots=True)
class PackageIndex:
    """The text of the machine's pip.conf, variables beside it, and the host's folders and files they name."""

    pip_conf: str
    environment: Mapping[str, str]
    binds: tuple[Bind, ...]


def package_index(environment: Mapping[str, str], prefix: Path, hidden: tuple[Path, ...]) -> PackageIndex:
    """What holds on this host. `hidden` are folders that no bind may reveal (the user's home, the cloud's state)."""
    settings = _merged(_configuration_files(environment, prefix))
    lines = ["[global]"]
    for name, value in settings.items():
        lines.append(f"{name} = {value}".replace("\n", "\n    "))
    variables = dict(_variables(environment))
    named = [word for value in (*settings.values(), *variables.values()) for word in value.split()]
    return PackageIndex("\n".join(lines) + "\n", variables, tuple(_binds(named, hidden)))


def _configuration_files(environment: Mapping[str, str], prefix: Path) -> list[Path]:
    """In pip's order: global, user, the virtual environment's, `PIP_CONFIG_FILE`; later ones win."""
    home = Path(environment.get("HOME", "/nonexistent"))
    user = Path(environment.get("XDG_CONFIG_HOME") or home / ".config")
    shared = [Path(folder) for folder in environment.get("XDG_CONFIG_DIRS", "/etc/xdg").split(":") if folder]
    files = [folder / "pip/pip.conf" for folder in shared]
    files += [Path("/etc/pip.conf"), home / ".pip/pip.conf", user / "pip/pip.conf", prefix / "pip.conf"]
    named = environment.get("PIP_CONFIG_FILE")
    if named == "/dev/null":
        return []
    return [*files, Path(named)] if named else files


def _merged(files: list[Path]) -> dict[str, str]:
    merged: dict[str, str] = {}
    for file in files:
        parser = configparser.RawConfigParser(strict=False)
        try:
            parser.read(file, encoding="utf-8")
        except (configparser.Error, OSError, UnicodeDecodeError):
            continue  # pip itself complains on the host; a machine is better off without the file
        for section in _SECTIONS:
            if parser.has_section(section):
                merged |= dict(_allowed(parser.items(section)))
    return merged


def _allowed(items: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    for name, value in items:
        option = name.replace("_", "-")
        if option in _ADDRESSES:
            yield option, "\n".join(without_secret(word) for word in value.split())
        elif option in _PLAIN or (option in _FILES and not _holds_private_key(Path(value))):
            yield option, value


def _variables(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, value in environment.items():
        if name.startswith("PIP_") and name not in _CERTIFICATES:
            for option, allowed in _allowed([(name.removeprefix("PIP_").lower(), value)]):
                yield f"PIP_{option.upper().replace('-', '_')}", " ".join(allowed.split())
        elif name in _CERTIFICATES and not _holds_private_key(Path(value)):
            yield name, value
        elif name.upper() in _PROXIES or name in _UV:
            yield name, " ".join(without_secret(word) for word in value.split())


def without_secret(address: str) -> str:
    """The address without user name, password and query; anything that is no URL stays as it is."""
    name, assigned, url = address.partition("=") if re.match(r"[\w-]+=https?:", address) else ("", "", address)
    parts = urlsplit(url)
    if not parts.scheme or not parts.netloc:
        return address
    host = parts.netloc.rpartition("@")[2]
    return name + assigned + urlunsplit((parts.scheme, host, parts.path, "", ""))


def _holds_private_key(file: Path) -> bool:
    try:
        return file.is_file() and b"PRIVATE KEY" in file.read_bytes()
    except OSError:
        return True  # unreadable: not ours to pass on


def _binds(named: list[str], hidden: tuple[Path, ...]) -> Iterator[Bind]:
    for word in dict.fromkeys(named):
        path = Path(word.removeprefix("file://").rstrip("/"))
        path = path.parent if path.name == "simple" else path  # its pages point at files beside it
        if path.is_absolute() and path.exists() and not any(exposes(path, secret) for secret in hidden):
            yield Bind(path, str(path))
