"""Compute's lists: filtered, in pages, and by scope for the aggregated kind (google-cloud.md 3.3.7)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tpuops.localcloud.core.compute.filters import keep
from tpuops.localcloud.core.paging import page, page_size
from tpuops.localcloud.core.scene import Call
from tpuops.localcloud.core.world import Document


def shown_page(call: Call, kind: str, found: Iterable[tuple[str, Document]]) -> Document:
    """One page; without entries there is no `items` key."""
    size = page_size(call.query.get("maxResults", ""), 500)
    kept = keep(found, call.query.get("filter", ""))
    chosen, token = page(kept, size, call.query.get("pageToken", ""))
    reply: Document = {"kind": kind}
    if chosen:
        reply["items"] = [document for _, document in chosen]
    return {**reply, "nextPageToken": token} if token else reply


def by_scope(call: Call, kind: str, field: str, scopes: Mapping[str, Iterable[tuple[str, Document]]]) -> Document:
    """Entries by `zones/Z` or `regions/R`; a scope without any carries a warning."""
    items: Document = {}
    for scope, found in scopes.items():
        kept = [document for _, document in keep(found, call.query.get("filter", ""))]
        items[scope] = {field: kept} if kept else {"warning": _nothing(scope)}
    return {"kind": kind, "items": items}


def _nothing(scope: str) -> Document:
    return {
        "code": "NO_RESULTS_ON_PAGE",
        "message": f"There are no results for scope '{scope}' on this page.",
        "data": [{"key": "scope", "value": scope}],
    }
