"""The simulated training program made real: counts steps, checkpoints to the bucket over plain HTTP, resumes.

Variables: STEPS, EVERY (steps between checkpoints), PACE (seconds a step), BUG_AT (the step at which it raises).
"""

import http.client
import json
import os
import time
import urllib.request
from pathlib import Path
from urllib.parse import quote, urlencode

import jax  # noqa: F401 - this folder's own: the machine's device stand-in watches programs that import it

BUCKET, _, PREFIX = os.environ["TPUOPS_CHECKPOINTS"].removeprefix("gs://").partition("/")
HOST = os.environ["STORAGE_EMULATOR_HOST"].rstrip("/")
OUTPUTS = Path(os.environ["TPUOPS_OUTPUTS"])
STEPS, EVERY, BUG_AT = (int(os.environ[name]) for name in ("STEPS", "EVERY", "BUG_AT"))
PACE = float(os.environ["PACE"])


def ask(path, query, data=None):
    """One call to the storage API, again until it answers; its JSON."""
    request = urllib.request.Request(f"{HOST}{path}?{urlencode(query)}", data=data)
    if data is not None:
        request.add_header("Content-Type", "application/octet-stream")
    for _ in range(50):
        try:
            with urllib.request.urlopen(request, timeout=20) as reply:
                return json.load(reply)
        except (OSError, http.client.HTTPException):
            time.sleep(0.2)
    raise SystemExit("the bucket does not answer")


def newest():
    """The newest complete checkpoint's step, 0 where there is none."""
    names = [
        item["name"] for item in ask(f"/storage/v1/b/{quote(BUCKET)}/o", {"prefix": f"{PREFIX}/"}).get("items", [])
    ]
    return max((int(name.split("/")[-2]) for name in names if name.endswith("/complete")), default=0)


def checkpoint(step):
    """Data first, then the mark that makes it complete."""
    (OUTPUTS / "metrics.json").write_text(json.dumps({"step": step}))
    for part in ("data", "complete"):
        query = {"uploadType": "media", "name": f"{PREFIX}/{step:08d}/{part}"}
        ask(f"/upload/storage/v1/b/{quote(BUCKET)}/o", query, str(step).encode())


def evaluate(batch, step):
    """A loss; where there is a bug, this is it."""
    return batch["labels" if step == BUG_AT else "images"] / step


def main():
    OUTPUTS.mkdir(parents=True, exist_ok=True)
    step = newest()
    print(f"resumed at step {step}" if step else "starting", flush=True)
    while step < STEPS:
        time.sleep(PACE)
        step += 1
        loss = evaluate({"images": 1.0}, step)
        print(f"step={step} loss={loss:.4f}", flush=True)
        if step % EVERY == 0 or step == STEPS:
            checkpoint(step)
    print(f"done after {step} steps", flush=True)


main()
