"""The kinds of value an environment file is made of, each with the sentence that refuses a wrong one.

Pure checks of one value by itself; what depends on two of them is in `rules`.
"""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, WithJsonSchema

from tpuops.environment.problems import Wrong
from tpuops.facts import names

_UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_DURATION = re.compile(r"(?:(\d{1,6})d)?(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,6})s)?")
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MACHINE_TYPE = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)+")
_NETWORK = re.compile(
    r"(?:projects/[a-z0-9:.-]+/(?:global/networks|regions/[a-z0-9-]+/subnetworks)/)?[a-z][-a-z0-9]{0,62}"
)
_SERVICE_ACCOUNT = re.compile(r"[a-z0-9-]{1,63}@(?:[a-z0-9-]+\.iam|developer|appspot)\.gserviceaccount\.com")
_SECRET_VERSION = re.compile(r"projects/[a-z0-9:.-]+/secrets/[A-Za-z0-9_-]{1,255}/versions/[A-Za-z0-9_-]+")
_SECRET = re.compile(r"projects/[^/]+/secrets/[^/]+")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


def duration(value: Any) -> timedelta:
    """`90s`, `30m`, `12h`, `7d` or several together (`1d12h`).

    Raises:
        Wrong: it is none, or zero.
    """
    if isinstance(value, timedelta):
        return value
    found = _DURATION.fullmatch(value) if isinstance(value, str) and value else None
    if not found:
        raise Wrong(f"{value!r} is not a duration", "write it as 90s, 30m, 12h, 7d or 1d12h")
    seconds = sum(int(amount or 0) * unit for amount, unit in zip(found.groups(), _UNITS.values(), strict=True))
    if seconds <= 0:
        raise Wrong("a duration must be longer than nothing")
    return timedelta(seconds=seconds)


def duration_text(value: timedelta) -> str:
    """The shortest form that `duration` reads back as the same."""
    rest, text = int(value.total_seconds()), ""
    for letter, unit in _UNITS.items():
        amount, rest = divmod(rest, unit)
        text += f"{amount}{letter}" if amount else ""
    return text


def source_folder(file: Path, source: str) -> Path:
    """Where `train.source` of an environment file is.

    Inside a wheel the folders `environments` and `templates` carry an underscore.
    """
    if file.parent.name == "_environments" and source.startswith("../templates/"):
        source = source.replace("../templates/", "../_templates/", 1)
    return (file.parent / source).resolve()


def checked_project(value: str) -> str:
    """The project id, if it is one. Raises `Wrong`."""
    if value.isdigit():
        raise Wrong("this is a project number", "give the project id, as `gcloud projects list` shows it")
    if not names.PROJECT.fullmatch(value):
        raise Wrong(f"{value!r} is no project id", "6 to 30 lower-case letters, digits or dashes, a letter first")
    return value


def checked_zone(value: str) -> str:
    """The zone, if it looks like one. Raises `Wrong`."""
    if not names.ZONE.fullmatch(value):
        raise Wrong(f"{value!r} is not a zone", "a zone looks like us-central1-a (a region alone is not enough)")
    return value


def checked_machine_type(value: str) -> str:
    """The machine type, if it looks like one. Raises `Wrong`."""
    if not _MACHINE_TYPE.fullmatch(value):
        raise Wrong(f"{value!r} is not a machine type", "a machine type looks like e2-small or n2-standard-4")
    return value


def _bucket(value: str) -> str:
    if value.startswith("gs://"):
        raise Wrong("the name alone is asked for", f"write {value[5:].partition('/')[0]}")
    if reason := names.bucket_problem(value):
        raise Wrong(f"Cloud Storage would refuse {value!r}: {reason}")
    return value


def _network(value: str) -> str:
    if not _NETWORK.fullmatch(value):
        raise Wrong(f"{value!r} names no network", "a plain name, or projects/HOST/... in full for a shared network")
    return value


def _service_account(value: str) -> str:
    if not _SERVICE_ACCOUNT.fullmatch(value):
        raise Wrong(f"{value!r} is no service account", "it looks like trainer@my-project.iam.gserviceaccount.com")
    return value


def _label_key(value: str) -> str:
    if value.startswith(names.PREFIX):
        raise Wrong(f"labels that start with {names.PREFIX} are set by tpuops", "choose another key")
    if not names.LABEL_KEY.fullmatch(value):
        raise Wrong(f"{value!r} is no label key", "lower-case letters, digits, _ and -, a letter first, at most 63")
    return value


def _label_value(value: str) -> str:
    if not names.LABEL_VALUE.fullmatch(value):
        raise Wrong(f"{value!r} is no label value", "lower-case letters, digits, _ and -, at most 63")
    return value


def _resource_name(value: str) -> str:
    if not names.RESOURCE.fullmatch(value):
        raise Wrong(f"{value!r} is no resource name", "lower-case letters, digits and -, a letter first, at most 63")
    return value


def _user(value: str) -> str:
    if not names.USER.fullmatch(value):
        raise Wrong(f"{value!r} is no Linux user name", "lower-case letters, digits, _ and -, at most 32")
    if value == "root":
        raise Wrong("Google's images let nobody log in as root", "any other name; it may use sudo without a password")
    return value


def _source(value: str) -> str:
    if value.startswith("gs://"):
        raise Wrong("the source is a folder of this machine", "give a path relative to this file")
    return _plain(value)


def _output(value: str) -> str:
    if value.startswith("gs://"):
        raise Wrong(
            "outputs are folders on the worker, collected into the bucket",
            "what the program writes to gs:// itself needs no collecting; leave it out here",
        )
    path = PurePosixPath(_plain(value))
    if path.is_absolute() or ".." in path.parts:
        raise Wrong(f"{value!r} leaves the run's folder", "give a path relative to the run's folder, such as outputs")
    return value


def _secret_file(value: str) -> str:
    if value.startswith("gs://"):
        raise Wrong("a secret in a bucket is open to all who may read there", "give a file of this machine")
    return _plain(value)


def _secret_version(value: str) -> str:
    if _SECRET_VERSION.fullmatch(value):
        return value
    if _SECRET.fullmatch(value):
        raise Wrong(f"{value!r} names no version", f"write {value}/versions/latest, or a number in place of latest")
    if "/locations/" in value:
        raise Wrong("regional secrets are not read", "keep it as a global one: projects/P/secrets/S/versions/V")
    raise Wrong(f"{value!r} is no version of a secret", "write projects/P/secrets/S/versions/V, or latest for V")


def _plain(value: str) -> str:
    if not value or _CONTROL.search(value):
        raise Wrong("must be a text without control characters, and not empty")
    return value


def _env_name(value: str) -> str:
    if not _ENV_NAME.fullmatch(value):
        raise Wrong(f"{value!r} is no name for an environment variable", "letters, digits and _, no digit first")
    if value.startswith("TPUOPS_"):
        raise Wrong("names that start with TPUOPS_ are set by tpuops", "choose another name")
    return value


def _progress(value: str) -> str:
    # RE2 and not `re`: the pattern meets every line of a log that somebody else wrote.
    import re2  # noqa: PLC0415 - 20 ms that only a file with a pattern pays

    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(value, options=options)
    except re2.error as error:
        reason = error.args[0].decode() if isinstance(error.args[0], bytes) else str(error)
        raise Wrong(
            f"not a pattern that RE2 reads: {reason}", "RE2 knows neither look-around nor back-references"
        ) from error
    if compiled.groups != 1:
        raise Wrong(f"has {compiled.groups} groups, exactly one is needed", r"the group holds the step: step=(\d+)")
    return value


def _argument(value: str) -> str:
    if "\x00" in value:
        raise Wrong("an argument cannot hold a zero byte")
    return value


Duration = Annotated[
    timedelta,
    BeforeValidator(duration),
    PlainSerializer(duration_text, return_type=str),
    WithJsonSchema(
        {"type": "string", "pattern": r"^(\d+d)?(\d+h)?(\d+m)?(\d+s)?$", "minLength": 2, "examples": ["12h", "7d"]}
    ),
]
Project = Annotated[str, AfterValidator(checked_project)]
Zone = Annotated[str, AfterValidator(checked_zone)]
MachineType = Annotated[str, AfterValidator(checked_machine_type)]
BucketName = Annotated[str, AfterValidator(_bucket)]
Network = Annotated[str, AfterValidator(_network)]
ServiceAccount = Annotated[str, AfterValidator(_service_account)]
LabelKey = Annotated[str, AfterValidator(_label_key)]
LabelValue = Annotated[str, AfterValidator(_label_value)]
ResourceName = Annotated[str, AfterValidator(_resource_name)]
UserName = Annotated[str, AfterValidator(_user)]
SourceFolder = Annotated[str, AfterValidator(_source)]
SecretFile = Annotated[str, AfterValidator(_secret_file)]
SecretVersion = Annotated[str, AfterValidator(_secret_version)]
OutputFolder = Annotated[str, AfterValidator(_output)]
EnvName = Annotated[str, AfterValidator(_env_name)]
Pattern = Annotated[str, AfterValidator(_progress)]
Argument = Annotated[str, AfterValidator(_argument)]
Command = Annotated[tuple[Argument, ...], Field(min_length=1)]
