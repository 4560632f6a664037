"""Renamed: a file that got another name while what it made stands under the old one, unseen by it and billing.

Names are made of the file's name. A run that is open under a name that no file here has, and that runs what this very
file says to run, is this file's own: nothing is made beside it. What else stands under such a name is only told, since
it may belong to files in another folder. Reads only.
"""

from __future__ import annotations

from tpuops.environment import Environment, available
from tpuops.errors import Busy, CloudError
from tpuops.facts import names
from tpuops.lifecycle.site import Site
from tpuops.resources import LABEL_ENVIRONMENT, METADATA_BUCKET, Node, Owned
from tpuops.stages.record import RUNNING, Records, RunRecord
from tpuops.stages.run import program_of


async def unrenamed(site: Site, found: tuple[Node, ...]) -> None:
    """Look at those of the project's slices that are ours, under names without a file.

    Raises:
        Busy: this file's run is open under another name.
    """
    here = _slugs(site.environment)
    for node in found:
        slug = node.labels.get(LABEL_ENVIRONMENT, "")
        if slug not in here and Owned(slug, site.desired.owned.owner).owns(node.labels):
            await _judge(site, node, slug)


def _slugs(environment: Environment) -> set[str]:
    """The environments that have a file here."""
    folder = environment.path.parent
    beside = [path.stem for pattern in ("*.yaml", "*.yml") for path in folder.glob(pattern)]
    return {names.environment_slug(name) for name in (environment.name, *available(folder), *beside)}


async def _judge(site: Site, node: Node, slug: str) -> None:
    record = await _record(site, node, slug)
    if record is None or record.state != RUNNING or record.program != program_of(site.environment):
        site.journal.record("node.nameless", name=node.name, environment=slug, zone=node.place.zone, state=node.state)
        return
    suffix = site.environment.path.suffix
    raise Busy(
        f"run {record.run_id} of this very program is open on {node.name}, under the name {slug}",
        evidence=[f"no file here is called {slug}: was it renamed to {site.environment.path.name}?"],
        hint=f"call it {slug}{suffix} again; rename it once `tpuops down --env {slug}` has ended the run",
    )


async def _record(site: Site, node: Node, slug: str) -> RunRecord | None:
    """The run on record under the old name, in the bucket that the node itself names."""
    bucket = node.metadata.get(METADATA_BUCKET, "")
    if not bucket:
        return None
    try:
        return await Records(site.cloud.store(bucket), f"tpuops/{slug}/run.json").read()
    except CloudError:
        return None
