"""A machine's life: boot, stop, start, delete, crash; its disk, its keys, its start-up script."""

from __future__ import annotations

import dataclasses
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from tpuops.localcloud.core.events import Booted, Crashed, MachineSpec
from tpuops.localcloud.network import listening


def again(spec: MachineSpec, **changes: object) -> MachineSpec:
    return dataclasses.replace(spec, boot=spec.boot + 1, **changes)  # type: ignore[arg-type]


def test_a_machine_accepts_ssh_soon_after_its_start(site, fresh) -> None:
    site.do(site.machines.stop(fresh.id))
    began = time.monotonic()
    site.start(again(fresh))
    assert time.monotonic() - began < 3  # a loaded machine; 0.3 s on an idle one
    with socket.create_connection((fresh.address, site.network.ssh_port)) as connected:
        assert connected.recv(4) == b"SSH-"


def test_stop_and_start_keep_disk_and_host_key_and_empty_tmp(site) -> None:
    spec = site.spec()
    first = site.start(spec)
    site.says(spec, "echo kept > ~/kept; echo root > ~root/kept; echo gone > /tmp/gone; echo gone > /run/gone")
    site.do(site.machines.stop(spec.id))
    second = site.start(again(spec))
    assert second.host_keys == first.host_keys
    assert second.host_keys[0].startswith("ssh-ed25519 ")
    assert site.says(spec, "cat ~/kept ~root/kept; ls /tmp; ls /run") == "kept\nroot"
    site.do(site.machines.delete(spec.id))


def test_a_deleted_machine_leaves_no_disk_and_its_successor_has_another_host_key(site) -> None:
    spec = site.spec()
    first = site.start(spec)
    site.says(spec, "mkdir -p ~/locked/inner; touch ~/locked/inner/file; chmod 000 ~/locked/inner ~/locked")
    site.do(site.machines.delete(spec.id))
    assert not (site.state / "machines" / spec.id).exists()
    assert site.start(spec).host_keys != first.host_keys
    site.do(site.machines.delete(spec.id))


def test_a_stopped_machine_refuses_connections_and_its_processes_are_gone(site) -> None:
    spec = site.boot()
    site.says(spec, "tmux new -d -s work 'exec -a tpuops-doomed sleep 1000'")
    site.do(site.machines.stop(spec.id))
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((spec.address, site.network.ssh_port))
    assert not [entry for entry in Path("/proc").iterdir() if entry.name.isdigit() and b"tpuops-doomed" in words(entry)]
    site.do(site.machines.delete(spec.id))


def words(entry: Path) -> bytes:
    try:
        return (entry / "cmdline").read_bytes()
    except OSError:
        return b""


def test_start_stop_and_delete_may_be_repeated(site, fresh) -> None:
    site.do(site.machines.start(fresh))
    for _ in range(2):
        site.do(site.machines.stop(fresh.id))
    site.do(site.machines.delete("never-was"))
    site.start(again(fresh))


def test_the_startup_script_runs_as_root_at_every_boot_with_its_output_kept(site) -> None:
    script = "#!/bin/bash\necho user $(id -u) home $HOME rehearsal $TPUOPS_REHEARSAL; exit 3"
    spec = site.spec()
    spec = dataclasses.replace(spec, metadata={**spec.metadata, "startup-script": script})
    for boot in (1, 2):
        site.start(dataclasses.replace(spec, boot=boot))
        ended = f"[ $(grep -c status /var/log/startup-script.log) = {boot} ]"
        wait = f"for i in $(seq 100); do {ended} && break; sleep .05; done"
        text = site.says(spec, f"{wait}; cat /var/log/startup-script.log")
        assert text == "\n".join(["user 0 home /root rehearsal 1", "startup-script exit status 3"] * boot)
        site.do(site.machines.stop(spec.id))
    site.do(site.machines.delete(spec.id))


def test_the_shutdown_script_runs_before_a_stop_and_may_not_delay_it_for_long(site) -> None:
    spec = site.spec()
    script = "echo stopping > /home/alice/last-words; sleep 60"
    spec = dataclasses.replace(spec, metadata={**spec.metadata, "shutdown-script": script})
    site.start(spec)
    began = time.monotonic()
    site.do(site.machines.stop(spec.id))
    assert time.monotonic() - began < 4
    site.start(again(spec))
    assert site.says(spec, "cat ~/last-words") == "stopping"
    site.do(site.machines.delete(spec.id))


@pytest.mark.parametrize("which", ["program", "keeper"])
def test_a_machine_whose_program_dies_is_reported_crashed_and_nothing_of_it_lives_on(site, which) -> None:
    spec = site.boot()
    after = len(site.notices)
    outer = site.machines.running()[spec.id]
    children = [int(pid) for pid in Path(f"/proc/{outer}/task/{outer}/children").read_text().split()]
    keeper = [int(pid) for pid in Path(f"/proc/{children[0]}/task/{children[0]}/children").read_text().split()]
    program = [int(pid) for pid in Path(f"/proc/{keeper[0]}/task/{keeper[0]}/children").read_text().split()]
    os.kill({"program": program, "keeper": keeper}[which][0], signal.SIGKILL)
    deadline = time.monotonic() + 5
    while not (crashes := [n for n in site.notices[after:] if isinstance(n, Crashed)]) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert [crash.id for crash in crashes] == [spec.id]
    assert spec.id not in site.machines.running()
    assert not Path(f"/proc/{outer}").exists()
    site.start(again(spec))
    site.do(site.machines.delete(spec.id))


def test_a_taken_address_is_a_crash_that_says_so(site) -> None:
    spec = site.spec()
    with listening(spec.address, site.network.ssh_port) as taken:
        taken.listen()
        site.do(site.machines.start(spec))
    assert "in use" in next(n for n in site.notices if isinstance(n, Crashed) and n.id == spec.id).reason
    site.do(site.machines.delete(spec.id))


def test_changed_metadata_changes_who_may_log_in(site, fresh) -> None:
    assert site.run(fresh, "true").returncode == 0
    site.order(fresh, order="metadata", metadata={"ssh-keys": f"bob:{site.public}"})
    assert site.run(fresh, "true").returncode == 255
    bob = subprocess.run([*site.ssh_argv(fresh, user="bob"), "echo $HOME $USER"], capture_output=True, check=True)
    assert bob.stdout == b"/home/bob bob\n"
    site.order(fresh, order="metadata", metadata={"ssh-keys": f"alice:{site.public}", "enable-oslogin": "TRUE"})
    assert site.run(fresh, "true").returncode == 255
    site.order(fresh, order="metadata", metadata=dict(fresh.metadata))
    assert site.run(fresh, "true").returncode == 0


def test_booted_says_what_the_machine_is_like(site, machine) -> None:
    booted = next(n for n in site.notices if isinstance(n, Booted) and n.id == machine.id)
    assert set(booted.agent) == {"landlock", "gate", "python", "boot_s"}
