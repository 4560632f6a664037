"""Which versions of the frameworks the training program will find: its own interpreter is asked, and imports none.

Where a command begins with a Python, that one is asked; else `python3`. What it cannot tell is left out.
"""

import json
import os
import subprocess

PACKAGES = (
    "jax", "jaxlib", "libtpu", "libtpu-nightly", "flax", "optax", "orbax-checkpoint", "torch", "torch_xla",
    "tensorflow", "tensorflow-tpu", "keras", "numpy",
)  # fmt: skip
ASK = """import json, platform, sys
try:
    from importlib.metadata import version
except ImportError:
    version = None
found = {"python": platform.python_version()}
for name in sys.argv[1:] if version else ():
    try:
        found[name] = version(name)
    except Exception:
        pass
print(json.dumps(found))
"""


def found(command, cwd, env):
    """{package: version} with `python`; {} where nobody answers."""
    name = command[0] if command and os.path.basename(command[0]).startswith("python") else "python3"
    try:
        done = subprocess.run(
            [name, "-c", ASK, *PACKAGES], cwd=cwd if os.path.isdir(cwd) else "/", env=env, timeout=30, check=False,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        return {str(key): str(value) for key, value in json.loads(done.stdout).items()}
    except (OSError, ValueError, AttributeError, subprocess.TimeoutExpired):
        return {}
