"""Train a small network on scikit-learn's handwritten digits, data-parallel over every device of this machine.

The example that `tpuops` rehearses and runs: it checkpoints, resumes exactly where it was (parameters, optimiser
state, step and the order of the data), logs each step, and fails unless it reaches 95 % on digits it never saw.

    TPUOPS_CHECKPOINTS       gs://bucket/prefix or a folder   (./checkpoints)
    TPUOPS_OUTPUTS           folder for metrics.json, model.npz   (./outputs)
    DIGITS_STEPS             240
    DIGITS_CHECKPOINT_EVERY  20
    DIGITS_SECONDS_PER_STEP  0: as fast as it goes
"""

import concurrent.futures
import gzip
import importlib.util
import json
import os
import pathlib
import signal
import sys
import threading
import time

import checkpoints
import jax
import numpy as np

BATCH, SEED, RATE = 128, 7, 3e-3
LAYERS = (64, 256, 128, 10)
TEST_ROWS = 360
STOP = threading.Event()


def digits():
    """Images and labels of scikit-learn's digits, as (train, test) pairs; split the same way each time.

    Read from the package's own file: importing sklearn.datasets costs seconds, its data do not need it.
    """
    package = importlib.util.find_spec("sklearn")
    if package is None or not package.submodule_search_locations:
        raise SystemExit("scikit-learn is not installed: its digits are what this program trains on")
    path = pathlib.Path(package.submodule_search_locations[0]) / "datasets" / "data" / "digits.csv.gz"
    with gzip.open(path, "rt", encoding="ascii") as file:
        table = np.array([line.split(",") for line in file], dtype=np.float32)
    table = table[np.random.default_rng(SEED).permutation(len(table))]
    images, labels = table[:, :64] / 16, table[:, 64].astype(np.int32)
    return (images[TEST_ROWS:], labels[TEST_ROWS:]), (images[:TEST_ROWS], labels[:TEST_ROWS])


def batch_at(data, step, size):
    """The rows of step `step`: they depend on nothing but the step, so that a resumed run sees the same ones."""
    rows = np.random.default_rng([SEED, step]).choice(len(data[0]), size, replace=False)
    return data[0][rows], data[1][rows]


def first_state():
    """Parameters (He initialisation) and Adam's two moments, as one flat dict of arrays."""
    rng = np.random.default_rng(SEED)
    state = {}
    for i, out in enumerate(LAYERS[1:]):
        wide = LAYERS[i]
        state[f"w{i}"] = (rng.standard_normal((wide, out)) * np.sqrt(2 / wide)).astype(np.float32)
        state[f"b{i}"] = np.zeros(out, np.float32)
    for moment in ("m", "v"):
        state.update({f"{moment}_{k}": np.zeros_like(v) for k, v in list(state.items()) if k[0] in "wb"})
    return state


def forward(params, images):
    """The network's logits."""
    value = images
    for i in range(len(LAYERS) - 1):
        value = value @ params[f"w{i}"] + params[f"b{i}"]
        value = jax.nn.relu(value) if i < len(LAYERS) - 2 else value
    return value


def compiled(size, steps):
    """The training step, compiled for `size` rows spread over all devices, and where its inputs are to lie."""
    jnp, sharding = jax.numpy, jax.sharding
    mesh = sharding.Mesh(np.array(jax.local_devices()), ("data",))
    split = sharding.NamedSharding(mesh, sharding.PartitionSpec("data"))
    whole = sharding.NamedSharding(mesh, sharding.PartitionSpec())

    def loss_of(params, images, labels):
        logits = forward(params, images)
        picked = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], axis=1)
        return -picked.mean(), (logits.argmax(axis=1) == labels).mean()

    def step_once(state, step, images, labels):
        params = {k: v for k, v in state.items() if k[0] in "wb"}
        (loss, accuracy), slopes = jax.value_and_grad(loss_of, has_aux=True)(params, images, labels)
        rate = RATE * 0.5 * (1 + jnp.cos(jnp.pi * jnp.minimum(step / steps, 1)))
        new = {}
        for k, slope in slopes.items():
            m, v = 0.9 * state["m_" + k] + 0.1 * slope, 0.999 * state["v_" + k] + 0.001 * slope**2
            change = (m / (1 - 0.9**step)) / (jnp.sqrt(v / (1 - 0.999**step)) + 1e-8)
            new[k], new["m_" + k], new["v_" + k] = params[k] - rate * change, m, v
        return new, loss, accuracy

    step = jax.jit(step_once, in_shardings=(whole, whole, split, split), out_shardings=(whole, whole, whole))
    example = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), first_state())
    rows = jax.ShapeDtypeStruct((size, 64), np.float32), jax.ShapeDtypeStruct((size,), np.int32)
    return step.lower(example, jax.ShapeDtypeStruct((), np.float32), *rows).compile(), whole, split


def write_whole(path, data):
    """Write a file that is either whole or not there."""
    partial = path.with_name(path.name + ".partial")
    partial.write_bytes(data)
    partial.replace(path)


def write_outputs(folder, metrics, params):
    """metrics.json and model.npz."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "model.npz.partial").open("wb") as file:
        np.savez(file, **params)
    (folder / "model.npz.partial").replace(folder / "model.npz")
    write_whole(folder / "metrics.json", json.dumps(metrics, indent=2).encode() + b"\n")


def restored():
    """The store and its newest whole checkpoint; runs beside the compiler."""
    store = checkpoints.open_store(os.environ.get("TPUOPS_CHECKPOINTS", "checkpoints"))
    return (store, *checkpoints.newest(store))


def train(steps, every, pace_s):
    """Train up to `steps`, from the newest checkpoint on; returns the last state, or None where it was told to stop."""
    with concurrent.futures.ThreadPoolExecutor(1) as beside:
        restoring = beside.submit(restored)
        data, _ = digits()
        devices = len(jax.local_devices())
        size = -(-BATCH // devices) * devices
        run_step, whole, split = compiled(size, steps)
        store, done, state = restoring.result()
    print(f"devices={devices} batch={size} resumed_step={done}", flush=True)
    state = jax.device_put(state or first_state(), whole)
    for step in range(done + 1, steps + 1):
        began = time.monotonic()
        images, labels = (jax.device_put(part, split) for part in batch_at(data, step, size))
        state, loss, accuracy = run_step(state, jax.device_put(np.float32(step), whole), images, labels)
        # Waiting on each step keeps many virtual CPU devices from starving each other on few cores.
        jax.block_until_ready(state)
        print(f"step={step} loss={float(loss):.4f} accuracy={float(accuracy):.4f}", flush=True)
        if step % every == 0 or step == steps or STOP.is_set():
            checkpoints.save(store, step, {key: np.asarray(value) for key, value in state.items()})
        if STOP.is_set():
            print(f"stopped by SIGTERM after step {step}, checkpoint saved", flush=True)
            return None
        STOP.wait(max(0.0, pace_s - (time.monotonic() - began)))
    return state


def main():
    """Train, test, write the outputs; the exit code: 0, 1 below 95 %, 143 after SIGTERM."""
    signal.signal(signal.SIGTERM, lambda *_: STOP.set())
    steps = int(os.environ.get("DIGITS_STEPS", "240"))
    every = int(os.environ.get("DIGITS_CHECKPOINT_EVERY", "20"))
    state = train(steps, every, float(os.environ.get("DIGITS_SECONDS_PER_STEP", "0")))
    if state is None:
        return 143
    params = {k: np.asarray(v) for k, v in state.items() if k[0] in "wb"}
    _, (images, labels) = digits()
    value = images
    for i in range(len(LAYERS) - 1):
        value = value @ params[f"w{i}"] + params[f"b{i}"]
        value = np.maximum(value, 0) if i < len(LAYERS) - 2 else value
    accuracy = float((value.argmax(axis=1) == labels).mean())
    metrics = {"test_accuracy": accuracy, "steps": steps, "devices": len(jax.local_devices())}
    write_outputs(pathlib.Path(os.environ.get("TPUOPS_OUTPUTS", "outputs")), metrics, params)
    print(f"test accuracy={accuracy:.4f}", flush=True)
    return 0 if accuracy >= 0.95 else 1


if __name__ == "__main__":
    sys.exit(main())
