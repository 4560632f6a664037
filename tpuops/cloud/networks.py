"""Networks as values: what lets machines be reached and reach others. Pure; `surroundings` does the asking.

Shapes: Compute Engine v1 `Network`, `Subnetwork`, `Firewall` and `Router` (the Cloud SDK's client of it).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

ANYWHERE = "0.0.0.0/0"
NAT_OF_ALL = frozenset({"ALL_SUBNETWORKS_ALL_IP_RANGES", "ALL_SUBNETWORKS_ALL_PRIMARY_IP_RANGES"})


@dataclass(frozen=True, slots=True)
class Network:
    """A network; `automatic`: it has a subnetwork in each region by itself."""

    name: str
    automatic: bool


@dataclass(frozen=True, slots=True)
class Subnetwork:
    """A subnetwork; `private_access`: machines without an external address reach Google's APIs from it."""

    name: str
    network: str
    region: str
    private_access: bool


@dataclass(frozen=True, slots=True)
class Rule:
    """A firewall rule for what comes in. `targeted`: it counts only for machines with its tags or accounts."""

    name: str
    network: str
    priority: int
    allows: bool
    ranges: tuple[str, ...]
    protocols: tuple[tuple[str, tuple[str, ...]], ...]
    targeted: bool

    def covers(self, port: int) -> bool:
        """Whether it speaks of a TCP port."""
        return any(name in {"tcp", "6", "all"} and _within(port, ports) for name, ports in self.protocols)

    @property
    def public_ranges(self) -> tuple[str, ...]:
        """The senders in the internet that it speaks of."""
        return tuple(each for each in self.ranges if not ipaddress.ip_network(each, strict=False).is_private)

    def meets(self, sources: Sequence[str], *, wholly: bool) -> bool:
        """Whether it speaks of these senders; not `wholly`: of some of them."""
        wanted = [ipaddress.IPv4Network(source) for source in sources]
        own = [ipaddress.IPv4Network(each, strict=False) for each in self.ranges if ":" not in each]
        pairs = [(inner, outer) for inner in wanted for outer in own]
        return any(inner.subnet_of(outer) if wholly else inner.overlaps(outer) for inner, outer in pairs)


@dataclass(frozen=True, slots=True)
class Nat:
    """Address translation of a router: the subnetworks it serves, empty for all of its network."""

    router: str
    network: str
    subnetworks: tuple[str, ...]

    def serves(self, network: str, subnetwork: str) -> bool:
        """Whether machines of a subnetwork get out through it."""
        return self.network == network and (not self.subnetworks or subnetwork in self.subnetworks)


def network(found: Mapping[str, Any]) -> Network:
    """A Network that came."""
    return Network(found["name"], bool(found.get("autoCreateSubnetworks")))


def subnetwork(found: Mapping[str, Any]) -> Subnetwork:
    """A Subnetwork that came."""
    private = bool(found.get("privateIpGoogleAccess"))
    return Subnetwork(found["name"], last(found["network"]), last(found["region"]), private)


def rule(found: Mapping[str, Any]) -> Rule | None:
    """A Firewall that came; None where it is switched off or about what goes out."""
    if found.get("disabled") or found.get("direction", "INGRESS") != "INGRESS":
        return None
    entries = found.get("allowed") or found.get("denied") or []
    return Rule(
        name=found["name"],
        network=last(found["network"]),
        priority=int(found.get("priority", 1000)),
        allows=bool(found.get("allowed")),
        ranges=tuple(found.get("sourceRanges", ())),
        protocols=tuple((each["IPProtocol"], tuple(each.get("ports", ()))) for each in entries),
        targeted=bool(found.get("targetTags") or found.get("targetServiceAccounts")),
    )


def nats(found: Mapping[str, Any]) -> tuple[Nat, ...]:
    """What a Router that came translates."""
    return tuple(
        Nat(
            found["name"],
            last(found["network"]),
            ()
            if each.get("sourceSubnetworkIpRangesToNat") in NAT_OF_ALL
            else tuple(last(one["name"]) for one in each.get("subnetworks", ())),
        )
        for each in found.get("nats", ())
    )


def last(name: str) -> str:
    """The last part of a resource's name."""
    return name.rpartition("/")[2]


def _within(port: int, ports: Sequence[str]) -> bool:
    """No ports named means all of them."""
    spans = [span.partition("-") for span in ports]
    return not ports or any(int(low) <= port <= int(high or low) for low, _, high in spans)
