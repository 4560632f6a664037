"""Names as Google's services accept them, and the ones tpuops gives.

Rules: google-cloud.md 2.8 (TPU nodes, labels), 3.1.4 (instances, RFC 1035), 4.1 (buckets). Names are a pure function of
environment, owner and project, so that any machine finds the same resources again without a local record.
"""

from __future__ import annotations

import hashlib
import re

PREFIX = "tpuops"
RESOURCE = re.compile(r"[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?")
LABEL_KEY = re.compile(r"[a-z][a-z0-9_-]{0,62}")
LABEL_VALUE = re.compile(r"[a-z0-9_-]{0,63}")
PROJECT = re.compile(r"[a-z][-a-z0-9]{4,28}[a-z0-9]")
ZONE = re.compile(r"[a-z]+-[a-z]+\d+-[a-z0-9]+")
USER = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
_BUCKET = re.compile(r"[a-z0-9](?:[-_a-z0-9]{1,61}[a-z0-9])")
_SALT = "tpuops-bucket-v1"
_ENVIRONMENT_MAX = 30
_OWNER_MAX = 16


def slug(text: str, longest: int = 63) -> str:
    """`text` in lower-case letters, digits and single dashes, starting with a letter.

    Two texts that a reader tells apart keep apart: what had to be changed or cut gets four hex digits of the original.
    """
    plain = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    if not plain or not plain[0].isalpha():
        plain = f"x-{plain}".strip("-")
    if plain == text and len(plain) <= longest:
        return plain
    return f"{plain[: longest - 5].rstrip('-')}-{_hex(text, 4)}"


def environment_slug(name: str) -> str:
    """An environment's name in resource names and labels, at most 30 characters."""
    return slug(name, _ENVIRONMENT_MAX)


def owner_slug(user: str) -> str:
    """A person's part of a resource name, at most 16 characters; `Ann.Smith@x.org` is not a legal label value."""
    return slug(user, _OWNER_MAX)


def label_value(text: str) -> str:
    """`text` as a label value: itself where legal, else its slug."""
    return text if LABEL_VALUE.fullmatch(text) else slug(text)


def node_name(environment: str, owner: str) -> str:
    """The TPU's name; takes the two slugs."""
    return f"{PREFIX}-{environment}-{owner}"


def vm_name(environment: str, owner: str) -> str:
    """The name of the VM beside it; takes the two slugs."""
    return f"{node_name(environment, owner)}-vm"


def bucket_name(project: str, environment: str, owner: str) -> str:
    """The home bucket's name. Bucket names are public, so the project enters only as eight hex of a salted hash.

    Words that Cloud Storage forbids in a name (`google`) leave the name to its prefix and the hash.
    """
    digest = _hex(f"{_SALT}/{project}/{environment}/{owner}", 8)
    spoken = f"{PREFIX}-{environment}-{owner}-{digest}"
    return f"{PREFIX}-{digest}" if bucket_problem(spoken) else spoken


def bucket_problem(name: str) -> str:
    """Why Cloud Storage would refuse a bucket name, or an empty string."""
    if not 3 <= len(name) <= 63 or not _BUCKET.fullmatch(name):
        return "3 to 63 lower-case letters, digits, dashes or underscores, starting and ending with a letter or digit"
    if name.startswith("goog") or "google" in name or "g00gle" in name:
        return "must not start with goog nor contain google"
    return ""


def _hex(text: str, digits: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:digits]
