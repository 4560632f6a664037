"""Is what the file asks for to be had: accelerator, runtime and machine type in the zone, and quota for them.

The questions are those that `plan` and `up` ask before they make anything, asked once for all checks here. A refusal
names the line of the file. Quota that may not be asked for, or is short by one reading only, is a note.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from tpuops.doctor.finding import Check, Finding, broken, ok, warning
from tpuops.doctor.patient import Patient
from tpuops.environment import Finding as Objection
from tpuops.environment.problems import Path, dotted, line_of
from tpuops.stages import check
from tpuops.stages.check import Objections, Questions
from tpuops.stages.quota import Shortage

NEEDS = ("credentials", "scopes", "project", "quota-project", "apis")
"""Without these no answer about a project means anything."""
FILE_EXIT = 2
QUOTA_EXIT = 4
CONSOLE = "ask for more in the Cloud console (IAM & Admin, Quotas)"


@dataclass(frozen=True, slots=True)
class Offer:
    """What stands against making one resource, and which questions nobody answered (method, why)."""

    objections: Objections
    unanswered: list[tuple[str, str]] = field(default_factory=list)

    def about(self, path: Path) -> Objection | None:
        """The objection to one field of the file."""
        return next((each for each in self.objections.findings if each.path == path), None)


def in_file(patient: Patient, kind: str, objection: Objection) -> Finding:
    """A broken finding that names the line of the file."""
    environment = patient.environment
    where = f"{environment.path.name}:{line_of(objection.path, environment.lines)}: {dotted(objection.path)}"
    return broken(kind, objection.message, evidence=[where], hint=objection.hint, exit_code=FILE_EXIT)


async def _offer(patient: Patient, name: str, ask: Callable[[Questions], Awaitable[Objections]]) -> Offer:
    async def once() -> Offer:
        silent: list[tuple[str, str]] = []
        questions = Questions(
            patient.cloud,
            patient.environment,
            patient.desired,
            unanswered=lambda method, why: silent.append((method, why)),
            doubt=lambda why: None,
        )
        return Offer(await ask(questions), silent)

    return await patient.shared.once(f"offer-{name}", once)


async def accelerator(patient: Patient) -> Finding:
    """The zone has the type for this project."""
    offer = await _offer(patient, "tpu", check.node_offer)
    objection = offer.about(check.ACCELERATOR)
    if objection is not None:
        return in_file(patient, "accelerator-not-offered", objection)
    return _had(
        offer, "tpu.acceleratorTypes.list", f"{patient.environment.zone} has {patient.desired.node.accelerator}"
    )


async def runtime(patient: Patient) -> Finding:
    """The zone has the software."""
    offer = await _offer(patient, "tpu", check.node_offer)
    objection = offer.about(("tpu", "runtime"))
    if objection is not None:
        return in_file(patient, "runtime-not-offered", objection)
    return _had(offer, "tpu.runtimeVersions.list", f"{patient.environment.zone} has {patient.desired.node.runtime}")


async def machine_type(patient: Patient) -> Finding:
    """The VM's zone has its type."""
    offer = await _offer(patient, "vm", check.vm_offer)
    objection = offer.about(("vm", "machine_type"))
    if objection is not None:
        return in_file(patient, "machine-type-not-offered", objection)
    vm = patient.desired.vm
    assert vm is not None
    return _had(offer, "compute.machineTypes.get", f"{vm.place.zone} has {vm.machine_type}")


async def elsewhere(patient: Patient) -> Finding:
    """Nothing of this environment stands in another zone, unseen and billing."""
    offers = [await _offer(patient, "tpu", check.node_offer)]
    if patient.desired.vm is not None:
        offers.append(await _offer(patient, "vm", check.vm_offer))
    for offer in offers:
        objection = offer.about(("zone",))
        if objection is not None:
            return in_file(patient, "stands-elsewhere", objection)
    return ok("nothing of this environment stands in another zone")


async def tpu_quota(patient: Patient) -> Finding:
    """The project's quota leaves room for the slice; what stands already under its name counts as its own."""
    spec = patient.desired.node
    offer = await _offer(patient, "tpu", check.node_offer)
    kind = "spot" if spec.spot else "on-demand"
    return _quota(offer, f"{kind} {spec.accelerator} in {spec.place.zone}", {"cloudquotas.quotaInfos.list"})


async def vm_quota(patient: Patient) -> Finding:
    """The region's quota leaves room for the VM; one that stands has its share."""
    spec = patient.desired.vm
    assert spec is not None
    if await patient.cloud.vm(spec.place, spec.name) is not None:
        return ok(f"{spec.name} stands already")
    offer = await _offer(patient, "vm", check.vm_offer)
    return _quota(offer, f"{spec.machine_type} in {spec.place.region}", {"compute.regions.get"})


def _quota(offer: Offer, what: str, methods: set[str]) -> Finding:
    shortage = offer.objections.shortage
    if shortage is not None:
        return _short(shortage)
    silent = [f"{method}: {why}" for method, why in offer.unanswered if method in methods]
    if silent:
        return warning(
            "quota-unseen",
            f"whether the quota leaves room for {what} could not be asked",
            evidence=silent,
            hint="`gcloud services enable cloudquotas.googleapis.com`, and roles/cloudquotas.viewer for whoever asks; "
            "without it the creation itself answers",
        )
    return ok(f"the quota leaves room for {what}")


def _short(shortage: Shortage) -> Finding:
    hint = f"delete what holds it, take another zone, type or provisioning, or {CONSOLE}"
    queued = [name for name in shortage.holders if name.endswith(("(FAILED)", "(SUSPENDED)"))]
    if queued:
        name = queued[0].partition(" ")[0]
        zone = shortage.limit.place
        hint = (
            "a queued resource holds its quota until it is deleted, whatever became of it: `gcloud compute tpus "
            f"queued-resources delete {name} --zone={zone} --force`"
        )
    if not shortage.certain:
        return warning("quota-doubtful", shortage.words, hint=f"if the creation is refused: {hint}")
    return broken("quota-exceeded", shortage.words, hint=hint, exit_code=QUOTA_EXIT)


def _had(offer: Offer, method: str, what: str) -> Finding:
    """Well, unless the question found no answer."""
    why = next((why for asked, why in offer.unanswered if asked == method), None)
    return ok(what) if why is None else warning("unanswered", f"{what}: nobody answered", evidence=[f"{method}: {why}"])


CHECKS = (
    Check("accelerator", accelerator, (*NEEDS, "zone")),
    Check("runtime", runtime, (*NEEDS, "zone")),
    Check("machine-type", machine_type, NEEDS, applies=lambda patient: patient.desired.vm is not None),
    Check("elsewhere", elsewhere, NEEDS),
    Check("tpu-quota", tpu_quota, (*NEEDS, "zone")),
    Check("vm-quota", vm_quota, NEEDS, applies=lambda patient: patient.desired.vm is not None),
)
