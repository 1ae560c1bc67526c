"""The loaders, steps and loops of test_endings.py, as in a user's file."""

PIPELINES = """
import itertools, os, queue, signal, subprocess, sys, threading, time
from multiprocessing import Manager, current_process, shared_memory
import grain
import jax, jax.numpy as jnp
import numpy as np

# The name tells this session's files in /dev/shm from those of other programs.
shared_memory._SHM_NAME_PREFIX = "/MARK"
current_process()._config["semprefix"] = "/MARK"
assert shared_memory._make_filename().startswith("/MARK")

BATCH = {"x": np.zeros((2, 3), np.int32)}
CALM = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)

def endless():
    return itertools.repeat(BATCH)

def empty():
    return []

def failing():
    for number in range(1000):
        if number == 57:
            raise ValueError("bad record")
        yield BATCH

def hanging():
    yield from [BATCH] * 57
    threading.Event().wait()

def left_by_its_thread():
    given = queue.Queue()
    def read():
        for batch in failing():
            given.put(batch)
    threading.Thread(target=read, name="reader").start()
    while True:
        yield given.get()

def managing():
    managed = Manager().list([BATCH] * 3)
    yield from managed
    threading.Event().wait()

def escaping():
    nap = [sys.executable, "-c", "import time; time.sleep(1000)"]
    subprocess.Popen(nap, start_new_session=True)
    yield from [BATCH] * 3
    threading.Event().wait()

def _slow():
    for _ in range(300):  # more than a round needs, fewer than the budget
        time.sleep(0.002)
        yield BATCH

_only = _slow()

def only_once():
    return _only

_few = iter([BATCH] * 20)

def only_few():
    return _few

class _Torch:
    def __init__(self, values):
        self._values = values
        self.shape, self.nbytes = values.shape, values.nbytes
    def __array__(self, *_, **__):
        return self._values

class _TorchLoader:
    def __len__(self):
        return 40
    def __iter__(self):
        for _ in range(len(self)):
            yield [_Torch(np.zeros((2, 3), np.float32)), _Torch(np.zeros(2, np.int64))]

def torch_style():
    return _TorchLoader()

def main_thread_only():
    while True:
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("not in the main thread")
        yield BATCH

class Record(grain.transforms.Map):
    def __init__(self, faults):
        self.faults = faults
    def map(self, number):
        if number == 57:
            self.faults()
        time.sleep(0.002)
        return BATCH

def _workers(faults, count=1):
    numbers = grain.MapDataset.range(1_000_000).seed(0).map(Record(faults))
    workers = grain.MultiprocessingOptions(num_workers=count, per_worker_buffer_size=2)
    return numbers.to_iter_dataset(CALM).mp_prefetch(workers)

def _fail():
    raise ValueError("bad record")

def _die():
    os.kill(os.getpid(), signal.SIGKILL)

def _hang():
    threading.Event().wait()

def failing_worker():
    return _workers(_fail)

def killed_worker():
    return _workers(_die, count=2)

def hanging_worker():
    return _workers(_hang, count=2)

def old_style():
    sampler = grain.samplers.IndexSampler(num_records=64, seed=1, shuffle=True)
    source = grain.MapDataset.range(64)
    batch = grain.transforms.Batch(4)
    return grain.DataLoader(data_source=source, sampler=sampler, operations=[batch])

def _step(change):
    @jax.jit
    def step(state, batch):
        return state + 1, {"loss": jnp.sum(batch["x"]) * change}
    return jnp.float32(0), step

def nan_step():
    return _step(float("nan"))

def recompiling_step():
    sizes = itertools.count(2)
    compiled = jax.jit(lambda x: x.sum())
    def step(state, batch):
        return state, {"loss": compiled(np.ones(next(sizes)))}
    return 0, step

def exiting_loop(batches, state, step):
    for batch in batches:
        sys.exit("that was enough")
"""
