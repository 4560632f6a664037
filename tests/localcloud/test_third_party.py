"""A tool of other people, unmodified, that calls gcloud in a shell, creates, logs in and deletes on the embedded cloud.

tpu_pod_commander (PyPI, Apache-2.0) is installed into a virtual environment of its own, once per checkout. Where port
22 may not be bound, it creates and deletes only: gcloud logs in at no other.
"""

import os
import shutil
import subprocess
import sys

import pytest

from tpuops import redirect

pytestmark = [pytest.mark.wire, pytest.mark.gcloud, pytest.mark.slow, pytest.mark.timeout(600)]
TOOL = "tpu_pod_commander==0.1.7"
AS_STARTED = dict(os.environ)
CONFIG = "configure_tpc(zone='us-central1-a', project='local-tpuops', name='theirs', accelerator_type='v3-8', "
CONFIG += (
    "runtime_version='tpu-ubuntu2204-base', tpu_user='alice', launch_script='#!/bin/sh\\necho step=1; sleep 100\\n')"
)


@pytest.fixture
def tpc(request):
    folder = request.config.cache.mkdir("third-party") / TOOL
    program = folder / "bin" / "tpc"
    if not program.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        install = [folder / "bin" / "pip", "install", "--quiet", TOOL]
        done = subprocess.run(install, env=AS_STARTED, capture_output=True, text=True, timeout=500, check=False)
        assert done.returncode == 0, f"{TOOL} cannot be installed here: {done.stderr[-300:]}"
    return program


def test_a_tool_that_shells_out_to_gcloud_creates_logs_in_and_deletes(tpc, cloud, tmp_path):
    assert shutil.which("gcloud"), "gcloud is missing"
    (tmp_path / "config.py").write_text(CONFIG)
    redirect.write_token(cloud.url, tmp_path)
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "USER": "alice",
        **redirect.variables(cloud.url, tmp_path),
    }

    def do(action, *words):
        done = subprocess.run(
            [tpc, action, tmp_path / "config.py", *words],
            env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=200, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done
        return done.stdout

    do("create")
    assert [node["state"] for node in cloud.status()["nodes"]] == ["READY"]
    assert cloud.status()["machines"][0]["address"] in do("ips")
    if cloud.ssh_port == 22:
        assert "home of alice: /home/alice" in do("run", "--command=echo home of $USER: \\$HOME")
        do("launch")
        assert "step=1" in do("check")
    do("delete")
    assert cloud.status()["nodes"] == []
