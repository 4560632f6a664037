"""Cloud Storage: google-cloud-storage, then the generated client of gcloud, which knows the published message types."""

from __future__ import annotations

import os
from functools import partial

import requests
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage

from tests.cloud_fixture import LocalCloud
from tests.localcloud.every_method.sdk import Sdk

CHUNK = 256 * 1024


def call_all(cloud: LocalCloud) -> None:
    """Call all that google-cloud-storage can."""
    client = storage.Client(
        project=cloud.project, credentials=AnonymousCredentials(), client_options={"api_endpoint": cloud.url}
    )
    assert client.get_service_account_email()
    bucket = client.create_bucket("every-method", location="us-central1")
    assert [found.name for found in client.list_buckets()] == ["every-method"]
    bucket.labels = {"a": "b"}
    bucket.patch()
    bucket.update()
    policy = client.get_bucket("every-method").get_iam_policy()
    policy["roles/storage.objectViewer"].add("user:me@example.org")
    bucket.set_iam_policy(policy)
    assert bucket.test_iam_permissions(["storage.objects.get"]) == ["storage.objects.get"]
    _objects(bucket)
    bucket.delete(force=True)


def _objects(bucket: storage.Bucket) -> None:
    blob = bucket.blob("a")
    blob.upload_from_string(b"one", if_generation_match=0)
    large = os.urandom(2 * CHUNK + 1)
    bucket.blob("large", chunk_size=CHUNK).upload_from_string(large)
    assert bucket.blob("large").download_as_bytes() == large
    blob.metadata = {"k": "v"}
    blob.patch()
    blob.content_type = "text/plain"
    blob.update()
    assert bucket.copy_blob(blob, bucket, "b").size == 3
    assert bucket.blob("c").rewrite(blob)[0] is None
    bucket.blob("d").compose([blob, blob])
    assert bucket.move_blob(blob, "e").name == "e"
    assert [found.name for found in bucket.list_blobs()] == ["b", "c", "d", "e", "large"]
    gone = bucket.get_blob("e")
    gone.delete()
    assert bucket.restore_blob("e", generation=gone.generation).size == 3
    session = bucket.blob("never").create_resumable_upload_session(size=9)
    assert requests.delete(session, timeout=20).status_code == 499  # as the documentation of uploads says


def call_all_as_gcloud(sdk: Sdk) -> None:
    """Call them again, as gcloud does, and whatever gcloud alone calls."""
    bucket = {"bucket": "every-type"}
    buckets = partial(sdk, "storage/v1")
    made = {"name": "every-type", "location": "US", "lifecycle": {"rule": [_rule()]}, "versioning": {"enabled": True}}
    buckets("buckets.Insert", project="local-tests", **{"bucket": made})
    assert buckets("buckets.List", project="local-tests")["items"]
    assert buckets("buckets.Get", **bucket)["lifecycle"] == {"rule": [_rule()]}
    buckets("buckets.Patch", **bucket, bucketResource={"labels": {"additionalProperties": []}})
    buckets("buckets.Update", **bucket, bucketResource=made)
    assert buckets("buckets.GetStorageLayout", **bucket)["location"] == "US"
    for kind in ("managedFolders", "folders"):
        assert buckets(f"{kind}.List", **bucket) == {"kind": f"storage#{kind}"}
    policy = buckets("buckets.GetIamPolicy", **bucket)
    binding = {"role": "roles/storage.objectViewer", "members": ["user:me@example.org"]}
    buckets("buckets.SetIamPolicy", **bucket, policy={"bindings": [binding], "etag": policy["etag"]})
    assert buckets("buckets.TestIamPermissions", **bucket, permissions="storage.objects.get")["permissions"]
    assert buckets("projects_serviceAccount.Get", projectId="local-tests")["email_address"]
    _typed_objects(sdk, bucket)
    buckets("buckets.Patch", **bucket, bucketResource={"versioning": {"enabled": False}})
    for item in buckets("objects.List", **bucket, versions=True)["items"]:
        sdk("storage/v1", "objects.Delete", **bucket, object=item["name"], generation=item["generation"])
    buckets("buckets.Delete", **bucket)


def _rule() -> dict[str, object]:
    return {"action": {"type": "Delete"}, "condition": {"age": 30, "matchesPrefix": ["old/"]}}


def _typed_objects(sdk: Sdk, bucket: dict[str, str]) -> None:
    def objects(method: str, **request: object) -> dict[str, object]:
        return dict(sdk("storage/v1", f"objects.{method}", **request))

    a = {**bucket, "object": "a"}
    sdk("storage/v1", "objects.Insert", upload=b"one", name="a", **bucket)
    first = objects("Get", **a)
    assert first["size"] in (3, "3")
    objects("Patch", **a, objectResource={"cacheControl": "no-store"})
    objects("Update", **a, objectResource={"contentType": "text/plain"})
    to = {"destinationBucket": "every-type"}
    come = {"sourceBucket": "every-type", "sourceObject": "a"}
    objects("Copy", **come, **to, destinationObject="b")
    assert objects("Rewrite", **come, **to, destinationObject="c")["done"]
    sources = {"sourceObjects": [{"name": "a"}, {"name": "b"}]}
    objects("Compose", **to, destinationObject="d", composeRequest=sources)
    objects("Move", **bucket, sourceObject="b", destinationObject="e")
    sdk("storage/v1", "buckets.Patch", **bucket, bucketResource={"versioning": {"enabled": False}})
    gone = objects("Get", **bucket, object="e")
    objects("Delete", **bucket, object="e")
    assert objects("Restore", **bucket, object="e", generation=gone["generation"])["name"] == "e"
    assert len(objects("List", **bucket, versions=True)["items"]) >= 4
