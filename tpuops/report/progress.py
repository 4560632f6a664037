"""A journal event as the line a person reads while it happens. Kinds without words here are for the record only."""

from __future__ import annotations

from tpuops.journal import Event
from tpuops.report import preflight
from tpuops.report.amounts import size
from tpuops.report.console import next_steps

SHOWN = 10

WORDS = {
    "bucket.create": "bucket {name}: creating ({reason})",
    "node.create": "node {name}: creating ({reason})",
    "node.start": "node {name}: starting ({reason})",
    "node.change": "node {name}: changing {what}",
    "node.changed": "node {name}: changed",
    "node.contested": "node {name}: another change of it is under way ({why})",
    "node.stop": "node {name}: stopping ({reason})",
    "node.delete": "node {name}: deleting ({reason})",
    "node.replace": "node {name}: creating anew ({reason})",
    "node.exists": "node {name}: exists already",
    "node.ready": "node {name}: READY, {workers} worker(s)",
    "node.stands": "node {name}: stands",
    "node.key": "{name}: adding this machine's SSH key, good until {until}",
    "node.gone": "node {name}: gone",
    "node.nameless": "node {name} of yours stands in {zone} ({state}), and no file here is called {environment}",
    "node.lost": "node {name}: lost",
    "vm.create": "vm {name}: creating ({reason})",
    "vm.change": "vm {name}: changing {what}",
    "vm.changed": "vm {name}: changed",
    "vm.contested": "vm {name}: another change of it is under way ({why})",
    "vm.replace": "vm {name}: creating anew ({reason})",
    "vm.delete": "vm {name}: deleting ({reason})",
    "vm.ready": "vm {name}: RUNNING",
    "vm.stands": "vm {name}: stands",
    "vm.gone": "vm {name}: gone",
    "lease.wait": "waiting for the lease of {holder}, {age_s:.0f} s old",
    "lease.broken": "lease: taken from {holder}",
    "lease.late": "the lease cannot be renewed for {age_s:.0f} s ({why}); the machines end themselves in {acts_s} s",
    "lease.renewed": "the lease is renewed again",
    "lease.lost": "the lease is lost: {why}; this process changes nothing more",
    "lease.unreleased": (
        "the lease could not be given back ({why}): machines that stay end themselves in {grace_s:.0f} s"
    ),
    "lease.runs_out": "waiting {wait_s:.0f} s until it must have stopped",
    "check.unanswered": "could not be checked beforehand ({method}): {why}",
    "check.doubt": "{why}",
    "capacity.wait": "no machine yet, trying again in {wait_s:.0f} s: {why}",
    "run.enter": "run: {entry} ({reason})",
    "run.closing": "run {run}: it had ended; finishing what was left to do",
    "run.untold": "run {run} ended {age_s:.0f} s ago ({outcome}), and nobody was told: this is its end",
    "run.leaving": "run {run}: it lives; leaving it to {machine}, which takes the lease at its next look",
    "run.stopped": "run {run}: {by} ordered its end; saving what it made",
    "stop.ordered": "stop: run {run} is supervised by {holder}, which ends it",
    "stop.training": "stop: attempt {attempt} gets SIGTERM, and {grace_s:.0f} s to end",
    "stop.unreached": "stop: {node} cannot be reached now: {why}",
    "stop.gone": "stop: {name} is gone, and nothing of the run is left to save",
    "preflight.unanswered": "preflight: the machine could not be looked at ({why}); going on",
    "train.started": "training: run {run}, attempt {attempt}, process {pid} on {node}",
    "train.stepping": "training: attempt {attempt} steps from {step}",
    "train.stalled": "attempt {attempt} has stalled ({phase}): {why}; its stacks are taken, now it is ended",
    "train.unended": "attempt {attempt} could not be ended: {why}",
    "ssh.lost": "ssh: connection to {node} lost at step {step}; asking the API what became of it",
    "ssh.back": "ssh: connected to {node} again; training was not disturbed",
    "ssh.unreachable": "ssh: {node} does not answer: {why}",
    "attempt.ended": "attempt {attempt} ended: {class} -> {move} ({reason})",
    "evidence.incomplete": "what the {what} knows of it could not be had: {why}",
    "signatures.conflict": "own messages: {what}",
    "harvest.incomplete": "evidence could not be saved whole: {why}",
    "collect.incomplete": "outputs are not saved yet: {why} {missing}",
    "collect.done": "outputs: {saved} file(s) saved and looked at",
    "up.failed": "provisioning failed: {why}",
    "run.unwatched": "tpuops cannot watch the run any more: {why}",
    "teardown.done": "teardown: removed {removed}",
    "teardown.finishing": "interrupted; the removal is finished first (Ctrl-C again ends at once, and leaves the rest)",
    "journal.unwritten": "no journal is kept on this machine any more ({path}: {why}); the run's own is in its bucket",
    "journal.unsent": "the journal's event {event} is only in the local spool",
}


def line(event: Event, *, whole: bool = False) -> str | None:
    """The line, None for an event that is not said; `whole` shows also what is simply well."""
    if event.kind == "run.interrupted":
        return interrupted(event)
    if event.kind == "preflight.done":
        return preflight.said(event.facts["rows"], whole=whole)
    if event.kind == "source.large":
        return large(event)
    words = WORDS.get(event.kind)
    if words is None:
        return None
    facts = {
        key: ", ".join(map(str, value)) if isinstance(value, list) else value for key, value in event.facts.items()
    }
    if event.kind.startswith(("node.", "vm.")) and "reason" in facts:
        facts["reason"] = facts["reason"].partition(": ")[0]  # the whole of it was said when the attempt ended
    return words.format(**facts)


def large(event: Event) -> str:
    """What is sent with the source that nobody may have meant to send, by name and size."""
    facts = event.facts
    lines = [f"source: {facts['files']} file(s), {size(facts['bytes'])}, are sent to each worker"]
    lines += [f"  {size(each['bytes'])}  {each['path']}" for each in facts["large"][:SHOWN]]
    if len(facts["large"]) > SHOWN:
        lines.append(f"  and {len(facts['large']) - SHOWN} more")
    return "\n".join([*lines, "  what the program does not need there is left out by a line in .gitignore"])


def interrupted(event: Event) -> str:
    """What goes on after an interruption, and how to come back."""
    kept, facts = event.facts["kept"], event.facts
    if not kept:
        return "interrupted; no machine stays"
    steps = (
        (facts["back"], "supervises it again"),
        (facts["log"], "shows its log"),
        (facts["stop"], "ends it, with its outputs saved"),
        (facts["down"], "ends it and removes the machines"),
    )
    trains = ", and a training on them goes on" if facts["open"] else ""
    return "\n".join(
        [f"interrupted; these stay{trains}: {', '.join(kept)}", next_steps(steps if trains else steps[-1:])]
    )
