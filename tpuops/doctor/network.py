"""Can machines be reached and reach others: network, subnetwork, firewall, and for private ones the ways out.

A firewall is opened, and a way out is made, only when a person agreed, and the question says what would be opened to
whom. Rules of folders and organizations are not seen here: a port that they close shows when machines stand.
"""

from __future__ import annotations

from tpuops.cloud.networks import ANYWHERE, Network, Rule, Subnetwork, last
from tpuops.doctor.finding import Check, Finding, Fix, broken, ok, warning
from tpuops.doctor.offers import NEEDS, in_file
from tpuops.doctor.patient import Patient
from tpuops.environment import Finding as Objection
from tpuops.errors import AccessError, NotFound

SSH = 22
SOURCES = {"external": (ANYWHERE,), "internal": ("10.0.0.0/8",), "iap": ("35.235.240.0/20",)}
"""From where SSH comes, by `ssh.reach`; IAP's range: google-cloud.md 6.7."""
WHO = {
    "external": "from anywhere in the internet (a key is still needed)",
    "internal": "from addresses 10.0.0.0/8 only",
    "iap": "from Identity-Aware Proxy's own addresses only",
}


async def network(patient: Patient) -> Finding:
    """The network is there, and says where machines stand in it."""
    found = await _network(patient)
    link = patient.desired.node.link
    if found is None:
        hint = f"`gcloud compute networks create {last(link.network)} --subnet-mode=auto`, or name another network"
        return in_file(patient, "network-missing", Objection(("tpu", "network"), f"no network {link.network}", hint))
    if not found.automatic and not link.subnetwork:
        hint = f"add `subnetwork:` with one of `gcloud compute networks subnets list --network={found.name}`"
        objection = Objection(("tpu", "network"), f"network {found.name} has no subnetworks of its own", hint)
        return in_file(patient, "subnetwork-unnamed", objection)
    return ok(f"network {found.name} is there")


async def subnetwork(patient: Patient) -> Finding:
    """The subnetwork is there, in the zone's region and in the file's network."""
    link, region = patient.desired.node.link, patient.environment.region
    found = await _subnetwork(patient)
    if found is None:
        hint = f"`gcloud compute networks subnets list --filter=region:{region}` shows those it has"
        objection = Objection(("tpu", "subnetwork"), f"{region} has no subnetwork {_subnetwork_name(patient)}", hint)
        return in_file(patient, "subnetwork-missing", objection)
    if found.network != last(link.network):
        objection = Objection(
            ("tpu", "subnetwork"),
            f"subnetwork {found.name} lies in network {found.network}, the file names {link.network}",
            f"write `network: {found.network}`, or another subnetwork",
        )
        return in_file(patient, "subnetwork-elsewhere", objection)
    return ok(f"subnetwork {found.name} is there")


async def firewall(patient: Patient) -> Finding:
    """A rule lets tcp:22 in from where `ssh.reach` says that we come."""
    reach, name = patient.environment.ssh.reach, last(patient.desired.node.link.network)
    project = _host_project(patient)
    await _network(patient)
    try:
        rules = await patient.cloud.around().rules(project)
    except AccessError as error:
        return warning(
            "firewall-unseen",
            f"whether network {name} lets SSH in could not be asked",
            evidence=error.evidence,
            hint="whoever has compute.firewalls.list (roles/compute.securityAdmin) can ask",
        )
    here = sorted(
        (rule for rule in rules if rule.network == name and rule.covers(SSH) and not rule.targeted),
        key=lambda rule: (rule.priority, rule.allows),  # of two of one priority the refusal counts
    )
    sources = SOURCES[reach]
    # Inside the network any part of the private addresses may be ours; elsewhere all of them must be let in.
    first = next((rule for rule in here if rule.meets(sources, wholly=reach != "internal")), None)
    if first is not None and first.allows:
        return ok(f"network {name} lets tcp:{SSH} in, by rule {first.name}")
    narrow = sorted({each for rule in here if rule.allows for each in rule.public_ranges})
    if first is None and narrow and reach == "external":
        return warning(
            "firewall-narrow",
            f"network {name} lets tcp:{SSH} in from {', '.join(narrow)} only",
            hint="all is well where this machine's address is one of them",
        )
    return _closed(patient, name, first)


def _closed(patient: Patient, name: str, denied: Rule | None) -> Finding:
    reach, project = patient.environment.ssh.reach, _host_project(patient)
    ranges, rule = SOURCES[reach], f"tpuops-ssh-{reach}-{name}"[:63].rstrip("-")
    around = patient.cloud.around()
    command = (
        f"gcloud compute firewall-rules create {rule} --project={project} --network={name} --direction=INGRESS "
        f"--allow=tcp:{SSH} --source-ranges={','.join(ranges)}"
    )
    hint = f"`{command}`" + (", with your own address in place of 0.0.0.0/0 if you can" if reach == "external" else "")
    if denied is not None:
        return broken(
            "firewall-closed",
            f"rule {denied.name} of network {name} refuses tcp:{SSH}",
            hint=f"ask who made it; an allowing rule of a smaller number than {denied.priority} goes before it",
        )
    return broken(
        "firewall-closed",
        f"no rule of network {name} lets tcp:{SSH} in",
        hint=hint,
        fix=Fix(
            f"open tcp:{SSH} of every machine in network {name} {WHO[reach]}, by rule {rule}",
            lambda: around.open_port(project, name, rule, SSH, ranges),
            command,
        ),
    )


async def private_access(patient: Patient) -> Finding:
    """Machines without an external address reach Google's APIs, without which they reach no bucket either."""
    found = await _subnetwork(patient)
    if found is None:
        raise NotFound(f"no subnetwork {_subnetwork_name(patient)}", method="compute.subnetworks.get")
    if found.private_access:
        return ok(f"subnetwork {found.name} has Private Google Access")
    project, around = _host_project(patient), patient.cloud.around()
    command = (
        f"gcloud compute networks subnets update {found.name} --project={project} --region={found.region} "
        "--enable-private-ip-google-access"
    )
    return broken(
        "private-access-off",
        f"subnetwork {found.name} has no Private Google Access, and its machines have no external address",
        hint=f"`{command}`",
        fix=Fix(
            f"switch Private Google Access on for subnetwork {found.name} (it costs nothing)",
            lambda: around.give_private_access(project, found),
            command,
        ),
    )


async def nat(patient: Patient) -> Finding:
    """Machines without an external address reach package indexes through a NAT; `train.setup` often needs one."""
    found = await _subnetwork(patient)
    if found is None:
        raise NotFound(f"no subnetwork {_subnetwork_name(patient)}", method="compute.subnetworks.get")
    project, around = _host_project(patient), patient.cloud.around()
    try:
        nats = await around.nats(project, found.region)
    except AccessError as error:
        what = f"whether machines of subnetwork {found.name} get into the internet could not be asked"
        hint = "whoever has compute.routers.list (roles/compute.networkViewer) can ask"
        return warning("nat-unseen", what, evidence=error.evidence, hint=hint)
    serving = next((nat for nat in nats if nat.serves(found.network, found.name)), None)
    if serving is not None:
        return ok(f"subnetwork {found.name} gets out through router {serving.router}")
    return _no_way_out(patient, found, project)


def _no_way_out(patient: Patient, found: Subnetwork, project: str) -> Finding:
    name, around = f"tpuops-nat-{found.name}"[:63].rstrip("-"), patient.cloud.around()
    what = f"machines of subnetwork {found.name} have no way into the internet"
    command = (
        f"gcloud compute routers create {name} --project={project} --region={found.region} --network={found.network} "
        f"&& gcloud compute routers nats create {name} --project={project} --router={name} --region={found.region} "
        f"--auto-allocate-nat-external-ips --nat-custom-subnet-ip-ranges={found.name}"
    )
    fix = Fix(
        f"make Cloud NAT {name}, which lets the machines of subnetwork {found.name} out and bills by hour and traffic",
        lambda: around.make_nat(project, found, name),
        command,
    )
    if patient.environment.train.setup:
        return broken("nat-missing", f"{what}, and train.setup may need it", hint=f"`{command}`", fix=fix)
    return warning("nat-missing", what, hint=f"where the program needs none, all is well; else `{command}`", fix=fix)


async def _network(patient: Patient) -> Network | None:
    name, project = last(patient.desired.node.link.network), _host_project(patient)
    return await patient.shared.once("network", lambda: patient.cloud.around().network(project, name))


async def _subnetwork(patient: Patient) -> Subnetwork | None:
    """Asked for after the network, which it is a part of."""

    async def once() -> Subnetwork | None:
        await _network(patient)
        project, region = _host_project(patient), patient.environment.region
        return await patient.cloud.around().subnetwork(project, region, _subnetwork_name(patient))

    return await patient.shared.once("subnetwork", once)


def _subnetwork_name(patient: Patient) -> str:
    """The one of the file, else the automatic one, which is called as its network."""
    link = patient.desired.node.link
    return last(link.subnetwork or link.network)


def _host_project(patient: Patient) -> str:
    """A shared network lies in another project."""
    name = patient.desired.node.link.network
    return name.split("/")[1] if name.startswith("projects/") else patient.environment.project


def _is_private(patient: Patient) -> bool:
    return patient.environment.ssh.reach != "external"


CHECKS = (
    Check("network", network, NEEDS),
    Check("subnetwork", subnetwork, (*NEEDS, "network")),
    Check("firewall", firewall, (*NEEDS, "network")),
    Check("private-access", private_access, (*NEEDS, "subnetwork"), applies=_is_private),
    Check("nat", nat, (*NEEDS, "subnetwork"), applies=_is_private),
)
