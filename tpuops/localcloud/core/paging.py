"""Lists in pages, the same for all services: a page token is the key after which to go on."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable

from tpuops.localcloud.core.world import Document


def page(found: Iterable[tuple[str, Document]], size: int, token: str) -> tuple[list[tuple[str, Document]], str]:
    """The entries after `token`, at most `size` of them, and the next token ("" at the end). Keys must ascend."""
    after = _key(token)
    chosen: list[tuple[str, Document]] = []
    for key, document in found:
        if after and key <= after:
            continue
        if len(chosen) == size:
            return chosen, base64.urlsafe_b64encode(chosen[-1][0].encode()).decode()
        chosen.append((key, document))
    return chosen, ""


def page_size(asked: str, largest: int) -> int:
    """The page size asked for, between 1 and what the service gives at most."""
    wanted = int(asked) if asked.isdigit() else 0
    return min(wanted, largest) if wanted > 0 else largest


def _key(token: str) -> str:
    try:
        return base64.urlsafe_b64decode(token.encode()).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""
