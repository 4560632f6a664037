"""From inside a machine: what of the host can be read, written, seen, killed, reached. Tested by trying."""

from __future__ import annotations

import json
import os
import shlex
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tpuops.localcloud.disk import Interpreter
from tpuops.localcloud.package_index import package_index, without_secret
from tpuops.localcloud.sandbox import Sandbox, exposes, wall

CANARY = "CANARY-7f3a9c"  # what the fixtures wrote into the user's secrets


def python(site, machine, program: str):
    """The program's output, run by the machine's own Python."""
    return site.says(machine, f"python -c {shlex.quote(program)}")


def test_the_host_cannot_be_written(site, machine) -> None:
    program = """
import os
wrote = []
for top in ("/usr", "/etc/ssl/certs", "/proc", "/sys", "/dev", "/opt/rehearsal", "/", "/work", PREFIX, BASE):
    for folder, inner, files in os.walk(top):
        if folder.count("/") > 4: inner.clear()
        if folder.startswith("/dev/pts") or folder.startswith("/dev/shm"): continue
        if folder == "/": inner.clear()
        if folder.startswith("/proc/") and folder.split("/")[2].isdigit(): inner.clear(); continue
        for path in (os.path.join(folder, "new-file"), *(os.path.join(folder, f) for f in files[:20])):
            if path.startswith("/dev/") and path != "/dev/new-file": continue
            try: fd = os.open(path, os.O_WRONLY | (os.O_CREAT if path.endswith("new-file") else 0))
            except OSError: continue
            os.close(fd); wrote.append(path)
print(wrote)
"""
    program = program.replace("PREFIX", repr(sys.prefix)).replace("BASE", repr(sys.base_prefix))
    wrote = eval(python(site, machine, program))
    # what it wrote lies on its own disk, between the folders lent to it; the host has no such file
    assert [path for path in wrote if Path(path).exists()] == []


def test_the_users_secrets_and_the_clouds_state_cannot_be_read(site, machine, user_home) -> None:
    targets = [str(path) for path in user_home.rglob("*") if path.is_file()] + [str(site.state / "endpoint.json")]
    ways = ["", "/proc/self/root", "/proc/thread-self/root", "/old_root", "/oldroot", "/newroot", "/.."]
    ways += [f"/proc/{pid}/{way}" for pid in (1, 2) for way in ("root", "cwd")]
    done = site.run(machine, "cat " + " ".join(shlex.quote(way + target) for way in ways for target in targets))
    assert (CANARY in done.stdout, done.returncode) == (False, 1)
    assert len(done.stderr.splitlines()) == len(ways) * len(targets)
    found = site.run(
        machine,
        f"grep -rsl --exclude-dir=wheels {CANARY} /home /root /etc /run /tmp /var /mnt /srv /opt/python /dev/shm",
        timeout=100,  # every package of the interpreter is read
    )
    assert found.stdout == ""
    assert site.run(machine, f"ls {user_home} {site.state} /home/{os.environ.get('USER', 'nobody')}").returncode == 2


def test_the_real_home_is_not_there(site, machine) -> None:
    below = [Path(sys.prefix), Path(sys.base_prefix)]
    for entry in Path.home().parent.iterdir() if os.getuid() else Path("/root").iterdir():
        if not any(prefix.is_relative_to(entry) for prefix in below):
            assert site.run(machine, f"ls -d {shlex.quote(str(entry))}").returncode == 2, entry


def test_sibling_files_of_the_interpreter_are_not_there(site, machine) -> None:
    checkout = Path(__file__).parents[3]
    assert site.run(machine, f"cat {checkout}/pyproject.toml {checkout}/tests/conftest.py").stdout == ""


def test_no_capability_and_no_way_to_gain_one(site, machine) -> None:
    status = site.says(machine, "cat /proc/self/status")
    for line in (
        "CapPrm:\t0000000000000000",
        "CapEff:\t0000000000000000",
        "CapBnd:\t0000000000000000",
        "NoNewPrivs:\t1",
    ):
        assert line in status
    assert "Max core file size        0 " in site.says(machine, "cat /proc/self/limits")
    for command in (
        "mount -t tmpfs none /mnt", "unshare -Urm mount -t tmpfs none /mnt", "unshare -Urpfm mount -t proc proc /proc",
        "mknod /tmp/disk b 8 0", "chroot / true", "hostname other",
    ):  # fmt: skip
        assert site.run(machine, command).returncode != 0, command


def test_only_the_machines_own_processes_exist(site, fresh) -> None:
    machine, other = fresh, site.boot()
    site.says(other, "tmux new -d 'exec -a other-machine sleep 1000'")
    marked = subprocess.Popen(["sleep", "1000"], env={"MARK": "host-process"})
    try:
        seen = site.says(
            machine, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '; cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' ' '"
        )
        assert "other-machine" not in seen
        assert "host-process" not in seen
        assert CANARY not in seen
        for pid in (marked.pid, os.getpid(), site.machines.running()[other.id]):
            assert site.run(machine, f"kill -0 {pid}").returncode == 1
        site.run(machine, "kill -KILL -1")
        assert marked.poll() is None
        assert site.says(other, "pgrep -f other-machine")
    finally:
        marked.kill()
        marked.wait()
        site.do(site.machines.delete(other.id))


def test_the_machines_own_program_cannot_be_read_steered_or_impersonated(site, machine) -> None:
    program = """
import ctypes, os
tried = {}
for pid in (1, 2):
    for name in ("mem", "environ", "root", "fd/0", "fd/1", "fd/3"):
        try: tried[f"{pid} {name}"] = os.open(f"/proc/{pid}/{name}", os.O_RDONLY | os.O_NONBLOCK) >= 0
        except OSError: pass
    if ctypes.CDLL(None).ptrace(16, pid, 0, 0) == 0: tried[f"{pid} ptrace"] = True
print(tried)
"""
    assert python(site, machine, program) == "{}"


def test_no_file_descriptor_of_the_host_comes_in(site, machine) -> None:
    inside = site.says(machine, "ls -l /proc/self/fd")
    assert len(inside.splitlines()) == 5  # total, three pipes, the folder being listed


def test_abstract_sockets_of_the_host_do_not_answer(site, machine) -> None:
    booted = next(n for n in site.notices if getattr(n, "agent", None) and n.id == machine.id)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(b"\0tpuops-host-socket")
        server.listen()
        program = "import socket; s=socket.socket(socket.AF_UNIX); print(s.connect_ex(b'\\0tpuops-host-socket'))"
        assert (python(site, machine, program) != "0") == (booted.agent["landlock"] >= 6)
    assert (
        site.says(
            machine, "ls /run/docker.sock /var/run/docker.sock /run/user /run/dbus /tmp/.X11-unix 2>/dev/null; true"
        )
        == ""
    )


def test_the_hosts_kernel_keys_are_out_of_reach(site, tmp_path) -> None:
    join, add = {"x86_64": (250, 248), "aarch64": (219, 217)}[os.uname().machine]
    search = f"import ctypes; print(ctypes.CDLL(None).syscall({join}, 10, -3, b'user', b'tpuops-key', 0) > 0)"
    (tmp_path / "cloud.py").write_text(f"""
import asyncio, ctypes
from pathlib import Path
from tpuops.localcloud.core.events import MachineSpec
from tpuops.localcloud.machines import Machines

libc = ctypes.CDLL(None)
libc.syscall({join}, 1, None)
assert libc.syscall({add}, b"user", b"tpuops-key", b"secret", 6, -3) > 0
{search}

async def main():
    machines = Machines(Path({str(tmp_path)!r}), "http://127.0.0.1:9/k", {site.network.ssh_port}, lambda notice: None)
    script = {{"startup-script": '''python -c "{search}" '''}}
    address = {site.network.address(next(site.numbers))!r}
    await machines.start(MachineSpec("1-0", "n", "tpu", "p", "z", address, "host", "", 0, script, 1, "", ()))
    log = Path({str(tmp_path)!r}) / "machines/1-0/disk/var/log/startup-script.log"
    while not (log.exists() and "status" in log.read_text()):
        await asyncio.sleep(0.02)
    print(log.read_text())
    await machines.close()

asyncio.run(main())
""")
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    argv = [sys.executable, str(tmp_path / "cloud.py")]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout.split()[:2] == ["True", "False"]  # the cloud has the key, its machine has not


def test_the_environment_starts_empty(site, machine) -> None:
    environment = dict(line.split("=", 1) for line in site.says(machine, "env -0 | tr '\\n\\0' ' \\n'").splitlines())
    assert CANARY not in json.dumps(environment)
    known = ("CLOUDSDK_", "GCE_METADATA_", "SSH_", "PIP_", "TPUOPS_", "SSL_CERT_", "UV_")
    names = {name for name in environment if not name.startswith(known) and not name.lower().endswith("_proxy")}
    assert names - {"REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"} == {
        "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "PWD", "SHLVL", "_", "PYTHONPATH", "VIRTUAL_ENV",
        "STORAGE_EMULATOR_HOST", "TENSORSTORE_GCS_HTTP_URL", "GOOGLE_CLOUD_PROJECT", "JAX_PLATFORMS", "XLA_FLAGS",
    }  # fmt: skip
    assert environment["TPUOPS_REHEARSAL"] == "1"
    assert environment["GCE_METADATA_HOST"] == f"127.0.0.1:9/k-path/m/{machine.id}"


def test_googles_hosts_lead_nowhere(site, machine) -> None:
    program = """
import socket
services = ("tpu", "compute", "storage", "www", "oauth2", "iamcredentials", "tpu.mtls")
names = [service + ".googleapis.com" for service in services]
for name in [*names, "metadata.google.internal", "metadata", "accounts.google.com"]:
    for family in (socket.AF_INET, socket.AF_INET6, 0):
        for *_, address in socket.getaddrinfo(name, 443, family, socket.SOCK_STREAM):
            assert address[0] in ("127.0.0.1", "::1"), (name, address)
            with socket.socket(socket.AF_INET6 if ":" in address[0] else socket.AF_INET) as s:
                assert s.connect_ex(address) != 0, name
print("nowhere")
"""
    assert python(site, machine, program) == "nowhere"
    assert site.run(machine, "echo 1.2.3.4 tpu.googleapis.com >> /etc/hosts").returncode == 1


def test_the_state_folder_keeps_other_users_out(site, machine) -> None:
    assert (site.state / "machines").stat().st_mode & 0o777 == 0o700
    assert (site.state / "machines" / machine.id).stat().st_mode & 0o777 == 0o700


def test_a_secret_beside_or_below_a_bound_folder_keeps_that_folder_out(tmp_path) -> None:
    for name in ("bin", "lib/python", "pyvenv.cfg", ".ssh"):
        (tmp_path / "venv" / name).mkdir(parents=True)
    interpreter = Interpreter(prefix=tmp_path / "venv", base_prefix=tmp_path / "venv")
    shown = {Path(bind.target).name for bind in interpreter.binds(())}
    assert shown == {"bin", "lib", "pyvenv.cfg"}
    hidden = tmp_path / "venv" / "lib" / "python" / "home"
    assert "lib" not in {Path(bind.target).name for bind in interpreter.binds((hidden,))}
    assert exposes(tmp_path, tmp_path / "a" / "b")
    assert not exposes(tmp_path / "a", tmp_path / "ab")


def test_the_wall_is_an_allow_list() -> None:
    words = wall(Sandbox("m", (), {}, ("true",)), 3)
    sources = [words[n + 1] for n, word in enumerate(words) if word in ("--ro-bind", "--bind", "--dev-bind")]
    assert set(sources) <= {"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"}
    for needed in (
        "--die-with-parent",
        "--new-session",
        "--clearenv",
        "--unshare-user",
        "--unshare-pid",
        "--unshare-ipc",
    ):
        assert needed in words
    assert words[words.index("--cap-drop") + 1] == "ALL"


def test_the_package_index_comes_in_without_its_password(tmp_path) -> None:
    (tmp_path / "wheels").mkdir()
    (tmp_path / "index" / "simple").mkdir(parents=True)
    (tmp_path / "client.pem").write_text("-----BEGIN PRIVATE KEY-----")
    (tmp_path / "pip.conf").write_text(
        "[global]\nindex-url = https://me:secret@example.org/simple\nclient-cert = /key.pem\n"
        f"extra-index-url = file://{tmp_path}/index/simple\n    https://token@example.net/simple?t=secret\n"
        f"[install]\nfind_links = {tmp_path}/wheels\n"
    )
    environment = {
        "PIP_CONFIG_FILE": str(tmp_path / "pip.conf"),
        "PIP_CERT": str(tmp_path / "client.pem"),
        "PIP_CLIENT_CERT": "/key.pem",
        "PIP_TRUSTED_HOST": "a",
        "HTTPS_PROXY": "http://u:secret@proxy:3128",
        "AWS_SECRET": "secret",
    }
    index = package_index(environment, tmp_path, (tmp_path / "home",))
    assert "secret" not in index.pip_conf + str(index.environment)
    assert "https://example.org/simple\n" in index.pip_conf
    assert "    https://example.net/simple\n" in index.pip_conf
    assert dict(index.environment) == {"PIP_TRUSTED_HOST": "a", "HTTPS_PROXY": "http://proxy:3128"}
    ours = {bind.target for bind in index.binds if bind.source.is_relative_to(tmp_path)}
    assert ours == {str(tmp_path / "wheels"), str(tmp_path / "index")}
    revealing = package_index(environment, tmp_path, (tmp_path / "wheels" / "home", tmp_path / "index")).binds
    assert not [bind for bind in revealing if bind.source.is_relative_to(tmp_path)]
    assert without_secret("name=https://u:p@h/simple") == "name=https://h/simple"
    assert without_secret("/local/path@v1") == "/local/path@v1"


def test_pip_installs_onto_the_machines_own_disk(site, fresh) -> None:
    wheel = """
import zipfile
with zipfile.ZipFile("/home/alice/tiny-1-py3-none-any.whl", "w") as w:
    w.writestr("tiny.py", "SIZE = 1")
    w.writestr("tiny-1.dist-info/METADATA", "Metadata-Version: 2.1\\nName: tiny\\nVersion: 1\\n")
    about = "Wheel-Version: 1.0\\nGenerator: b\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"
    w.writestr("tiny-1.dist-info/WHEEL", about)
    w.writestr("tiny-1.dist-info/RECORD", "")
"""
    python(site, fresh, wheel)
    site.says(fresh, "pip install -q --no-deps ~/tiny-1-py3-none-any.whl")
    assert python(site, fresh, "import tiny, asyncssh; print(tiny.__file__)").startswith("/opt/python/lib/")


@pytest.mark.parametrize("path", ["/usr/bin:/bin"])
def test_a_sandbox_that_can_be_built_is_found(path) -> None:
    program = "from tpuops.localcloud.sandbox import check_sandbox; print(check_sandbox())"
    found = subprocess.run(
        [sys.executable, "-c", program], env={"PATH": path}, capture_output=True, text=True, check=True
    )
    assert found.stdout.strip().endswith("bwrap")


def test_without_a_sandbox_the_refusal_names_the_command_that_installs_one(tmp_path) -> None:
    program = (
        "from tpuops.localcloud.sandbox import check_sandbox, SandboxMissing\n"
        "try: check_sandbox()\nexcept SandboxMissing as missing: print(missing.message + ' | ' + missing.hint)"
    )

    def refusal() -> str:
        environment = {"PATH": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[3])}
        return subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
        ).stdout

    (tmp_path / "apt-get").touch(0o755)
    assert refusal().strip().endswith("bubblewrap (bwrap) is not installed | apt-get install bubblewrap")
    (tmp_path / "bwrap").write_text("#!/bin/sh\necho bwrap: No permissions to create new namespace >&2; exit 1\n")
    (tmp_path / "bwrap").chmod(0o755)
    assert "cannot build a sandbox here: bwrap: No permissions to create new namespace | sysctl" in refusal()
