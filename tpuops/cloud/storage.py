"""Cloud Storage through google-cloud-storage: the home bucket and its objects.

`StorageService` is synchronous and runs in the threads of `calls`. `BucketStore` is the port's `ObjectStore`: it
repeats what is safe to repeat; when a repeated conditional write says 412 it looks whether the first try was its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, BinaryIO

from tpuops.cloud.calls import TIMEOUT_S, Caller
from tpuops.cloud.endpoints import Endpoints
from tpuops.cloud.port import ObjectStat, StoredObject
from tpuops.cloud.retry import repeatedly
from tpuops.cloud.threads import Once
from tpuops.errors import Conflict, NotFound, Transient
from tpuops.resources import Bucket, BucketSpec

if TYPE_CHECKING:
    from google.auth.credentials import Credentials
    from google.cloud import storage

# google-cloud-storage retries uploads and deletions unless told not to (google-cloud.md 4.5).
_ONCE: dict[str, Any] = {"retry": None, "timeout": TIMEOUT_S}


class StorageService:
    """The methods that tpuops uses. Each raises what the client library raises."""

    def __init__(self, endpoints: Endpoints, who: Callable[[], Credentials]) -> None:
        self._endpoints, self._who = endpoints, who
        self._client = Once(self._build)
        self._said = threading.local()

    def _build(self) -> storage.Client:
        """Over a session that notes each reply's Date. The one call that needs a project names it itself."""
        from google.auth.transport.requests import AuthorizedSession  # noqa: PLC0415
        from google.cloud import storage  # noqa: PLC0415

        session = AuthorizedSession(self._who())
        session.hooks["response"].append(self._note_date)
        options = {"api_endpoint": self._endpoints.storage}
        client = storage.Client(project="none", credentials=self._who(), client_options=options, _http=session)
        # Else every new bucket is asked for once more, in a thread and with retries nobody sees (google-cloud.md 4.10).
        client._bucket_metadata_cache = None
        return client

    def bucket(self, name: str) -> Bucket:
        """buckets.get."""
        return bucket(self._client().get_bucket(name, **_ONCE))

    def create_bucket(self, spec: BucketSpec) -> Bucket:
        """buckets.insert: uniform access, no public access, no soft delete (google-cloud.md 4.7, 4.8)."""
        wanted = self._client().bucket(spec.name)
        wanted.labels = dict(spec.labels)
        wanted.iam_configuration.uniform_bucket_level_access_enabled = True
        wanted.iam_configuration.public_access_prevention = "enforced"
        # Soft delete bills a week of every overwritten lease and every rotated checkpoint.
        wanted.soft_delete_policy.retention_duration_seconds = 0
        location = spec.location.upper()
        return bucket(self._client().create_bucket(wanted, location=location, project=spec.project, **_ONCE))

    def read(self, bucket_name: str, name: str) -> StoredObject | None:
        """objects.get with its bytes; None where it is absent, or changed in between."""
        from google.api_core import exceptions as api  # noqa: PLC0415

        found = self._client().bucket(bucket_name).get_blob(name, **_ONCE)
        if found is None:
            return None
        # A proxy may drop the Date; then the object counts as fresh, since a lease taken too early does harm.
        now: datetime = self._said.date or found.updated
        about = stat(found)  # before the download, which overwrites the blob's own fields with its headers
        try:
            with _checked(bucket_name, name):
                data = found.download_as_bytes(if_generation_match=found.generation, **_ONCE)
        except (api.NotFound, api.PreconditionFailed):
            return self.read(bucket_name, name)  # somebody wrote in between; they cannot do so for ever (1/s an object)
        return StoredObject(about, data, now)

    def download(self, bucket_name: str, name: str, generation: int, file: BinaryIO) -> None:
        """objects.get with `alt=media`, streamed; from the start of `file`, whatever an earlier try left in it."""
        file.seek(0)
        file.truncate()
        blob = self._client().bucket(bucket_name).blob(name)
        with _checked(bucket_name, name):
            blob.download_to_file(file, if_generation_match=generation, **_ONCE)

    def write(self, bucket_name: str, name: str, data: bytes, if_generation: int | None) -> ObjectStat:
        """objects.insert."""
        blob = self._client().bucket(bucket_name).blob(name)
        kind = "application/json" if name.endswith(".json") else "application/octet-stream"
        blob.upload_from_string(data, content_type=kind, if_generation_match=if_generation, **_ONCE)
        return stat(blob)

    def delete(self, bucket_name: str, name: str, if_generation: int | None) -> None:
        """objects.delete."""
        self._client().bucket(bucket_name).blob(name).delete(if_generation_match=if_generation, **_ONCE)

    def list(self, bucket_name: str, prefix: str) -> tuple[ObjectStat, ...]:
        """objects.list, all pages."""
        return tuple(stat(blob) for blob in self._client().list_blobs(bucket_name, prefix=prefix, **_ONCE))

    def _note_date(self, reply: Any, *_: Any, **__: Any) -> None:
        """The server's own clock, kept for this thread's call: ages of leases are measured by it."""
        said = reply.headers.get("Date")
        self._said.date = parsedate_to_datetime(said) if said else None


class BucketStore:
    """`ObjectStore` over one bucket. Raises as the port says."""

    def __init__(self, service: StorageService, bucket: str, caller: Caller) -> None:
        self._service, self._bucket, self._caller = service, bucket, caller

    async def read(self, name: str) -> StoredObject | None:
        """The object with its bytes, or None."""

        async def ask() -> StoredObject | None:
            service, bucket = self._service, self._bucket
            return await self._caller.ask("storage.objects.get", self._at(name), lambda: service.read(bucket, name))

        return await repeatedly(ask, self._caller.clock)

    async def write(self, name: str, data: bytes, *, if_generation: int | None) -> ObjectStat:
        """Write; raises `Conflict` where the generation is not the one asked for."""
        tries = 0

        async def ask() -> ObjectStat:
            nonlocal tries
            tries += 1
            service, bucket = self._service, self._bucket
            try:
                return await self._caller.ask(
                    "storage.objects.insert", self._at(name), lambda: service.write(bucket, name, data, if_generation)
                )
            except Conflict:
                if tries == 1:
                    raise
                return await self._own(name, data)

        return await repeatedly(ask, self._caller.clock)

    async def download(self, stat: ObjectStat, file: BinaryIO) -> None:
        """This generation's bytes into `file`. Raises `NotFound` where it is gone."""

        async def ask() -> None:
            service, bucket = self._service, self._bucket
            await self._caller.ask(
                "storage.objects.get",
                self._at(stat.name),
                lambda: service.download(bucket, stat.name, stat.generation, file),
            )

        await repeatedly(ask, self._caller.clock)

    async def delete(self, name: str, *, if_generation: int | None = None) -> None:
        """Delete; an absent object is fine."""
        tries = 0

        async def ask() -> None:
            nonlocal tries
            tries += 1
            service, bucket = self._service, self._bucket
            try:
                await self._caller.ask(
                    "storage.objects.delete", self._at(name), lambda: service.delete(bucket, name, if_generation)
                )
            except NotFound:
                return
            except Conflict:
                if tries == 1:
                    raise  # a later 412 only says that the generation we deleted is gone, as it should be

        await repeatedly(ask, self._caller.clock)

    async def list(self, prefix: str) -> tuple[ObjectStat, ...]:
        """Every object below `prefix`, by name."""

        async def ask() -> tuple[ObjectStat, ...]:
            service, bucket = self._service, self._bucket
            return await self._caller.ask(
                "storage.objects.list", self._at(prefix), lambda: service.list(bucket, prefix)
            )

        return tuple(sorted(await repeatedly(ask, self._caller.clock), key=lambda found: found.name))

    async def _own(self, name: str, data: bytes) -> ObjectStat:
        """After a try whose reply was lost: the object is ours if it holds what we wrote (leases carry a random token).

        Raises:
            Conflict: somebody else's bytes are there.
        """
        found = await self.read(name)
        if found is None or found.data != data:
            raise Conflict(
                f"{name} was written by somebody else", method="storage.objects.insert", resource=self._at(name)
            )
        return found.stat

    def _at(self, name: str) -> str:
        return f"gs://{self._bucket}/{name}"


@contextmanager
def _checked(bucket_name: str, name: str) -> Iterator[None]:
    """Bytes whose checksum is not the object's were spoilt on the way: another try may bring the right ones."""
    from google.cloud.storage.exceptions import DataCorruption  # noqa: PLC0415

    try:
        yield
    except DataCorruption as error:
        raise Transient(
            f"what came of {name} is not what the bucket has",
            method="storage.objects.get",
            resource=f"gs://{bucket_name}/{name}",
        ) from error


async def create_bucket(service: StorageService, spec: BucketSpec, caller: Caller) -> Bucket:
    """Create it once. A bucket that is there after a lost reply is ours if it carries our labels.

    Raises:
        Conflict: the name was taken before we asked.
    """
    lost = False

    async def ask() -> Bucket:
        nonlocal lost
        try:
            return await caller.ask("storage.buckets.insert", spec.name, lambda: service.create_bucket(spec))
        except Transient:
            lost = True
            raise
        except Conflict:
            if not lost:
                raise
            found = await caller.ask("storage.buckets.get", spec.name, lambda: service.bucket(spec.name))
            if dict(found.labels) != dict(spec.labels):
                raise
            return found

    return await repeatedly(ask, caller.clock)


def bucket(found: Any) -> Bucket:
    """The bucket that came, as our value."""
    return Bucket(
        name=found.name,
        location=(found.location or "").lower(),
        project_number=str(found.project_number or ""),
        labels=dict(found.labels),
        created=found.time_created,
        regions=tuple(region.lower() for region in found.data_locations or ()),
    )


def stat(found: Any) -> ObjectStat:
    """A blob's metadata, as our value."""
    return ObjectStat(found.name, int(found.generation), int(found.size), found.md5_hash or "", found.updated)
