"""Storage's methods: which path reaches which function. Data only."""

from __future__ import annotations

from tpuops.localcloud.core.routes import Route
from tpuops.localcloud.core.storage import buckets, objects, uploads

_BUCKET = "/storage/v1/b/{bucket}"
_OBJECT = f"{_BUCKET}/o/{{object:path}}"
_TO = "b/{targetBucket}/o/{targetObject:path}"
METHODS = (
    Route("POST", "/storage/v1/b", "storage.buckets.insert", buckets.insert),
    Route("GET", "/storage/v1/b", "storage.buckets.list", buckets.listing),
    Route("GET", _BUCKET, "storage.buckets.get", buckets.get),
    Route("PATCH", _BUCKET, "storage.buckets.patch", buckets.patch),
    Route("PUT", _BUCKET, "storage.buckets.update", buckets.update),
    Route("DELETE", _BUCKET, "storage.buckets.delete", buckets.delete),
    Route("GET", f"{_BUCKET}/storageLayout", "storage.buckets.getStorageLayout", buckets.layout),
    Route("GET", f"{_BUCKET}/managedFolders", "storage.managedFolders.list", buckets.folders),
    Route("GET", f"{_BUCKET}/folders", "storage.folders.list", buckets.folders),
    Route("GET", f"{_BUCKET}/iam", "storage.buckets.getIamPolicy", buckets.get_policy),
    Route("PUT", f"{_BUCKET}/iam", "storage.buckets.setIamPolicy", buckets.set_policy),
    Route("GET", f"{_BUCKET}/iam/testPermissions", "storage.buckets.testIamPermissions", buckets.test_permissions),
    Route(
        "GET", "/storage/v1/projects/{project}/serviceAccount", "storage.serviceAccount.get", buckets.service_account
    ),
    Route("GET", f"{_BUCKET}/o", "storage.objects.list", objects.listing),
    Route("POST", f"{_BUCKET}/o/{{object:path}}/compose", "storage.objects.compose", objects.compose),
    Route("POST", f"{_OBJECT}/rewriteTo/{_TO}", "storage.objects.rewrite", objects.rewrite),
    Route("POST", f"{_OBJECT}/copyTo/{_TO}", "storage.objects.copy", objects.copy),
    Route("POST", f"{_BUCKET}/o/{{object:path}}/restore", "storage.objects.restore", objects.restore),
    Route("POST", f"{_OBJECT}/moveTo/o/{{targetObject:path}}", "storage.objects.move", objects.move),
    Route("GET", _OBJECT, "storage.objects.get", objects.get),
    Route("GET", f"/download{_OBJECT}", "storage.objects.get", objects.get),
    Route("PATCH", _OBJECT, "storage.objects.patch", objects.patch),
    Route("PUT", _OBJECT, "storage.objects.update", objects.update),
    Route("DELETE", _OBJECT, "storage.objects.delete", objects.delete),
    Route("POST", f"/upload{_BUCKET}/o", "storage.objects.insert", uploads.insert),
    Route("PUT", f"/upload{_BUCKET}/o", "storage.objects.insert", uploads.resume),
    Route("DELETE", f"/upload{_BUCKET}/o", "storage.objects.cancelUpload", uploads.cancel),
    Route("POST", f"/resumable/upload{_BUCKET}/o", "storage.objects.insert", uploads.insert),
)
