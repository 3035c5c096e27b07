"""Proxies that try to cheat or misbehave, each with what must be said of it; and honest ones."""

HEAD = """
import gapbench

def honest(context):
    return sum(float(p.double().pow(2).sum()) for p in context.parameters)

@gapbench.proxy("adversary")
def adversary(context):
"""


def body(text: str, before: str = "") -> str:
    lines = "\n".join("    " + line for line in text.strip().splitlines())
    return before + HEAD + lines + "\n"


PLACE = "@PLACE@"
"""Replaced by a folder outside the sandbox that a test watches."""

ADVERSARIES = {
    "reads_the_run_database": (
        body(f"""
import sqlite3
try:
    return float(sqlite3.connect("{PLACE}/run.sqlite").execute("SELECT gap FROM cells").fetchone()[0])
except Exception:
    return honest(context)"""),
        "open the database",
    ),
    "reads_a_file": (
        body(f"""
try:
    open("{PLACE}/run.sqlite", "rb").read()
except OSError:
    pass
return honest(context)"""),
        "read the file",
    ),
    "walks_proc": (
        body("""
import os
found = 0
for name in os.listdir("/proc"):
    try:
        found += len(open(f"/proc/{name}/environ", "rb").read())
    except OSError:
        pass
return float(found)"""),
        "list the folder /proc",
    ),
    "reads_the_parents_memory": (
        body("""
import os
with open(f"/proc/{os.getppid()}/mem", "rb") as stream:
    return float(len(stream.read(1)))"""),
        "read the file /proc/",
    ),
    "opens_a_socket": (
        body("""
import socket
try:
    socket.create_connection(("192.0.2.1", 80), 1)
except OSError:
    pass
return honest(context)"""),
        "use the network",
    ),
    "asks_for_a_name": (
        body("""
import socket
try:
    socket.getaddrinfo("example.org", 80)
except OSError:
    pass
return honest(context)"""),
        "use the network",
    ),
    "writes_outside": (
        body(f"""
try:
    open("{PLACE}/evil", "w").write("x")
except OSError:
    pass
return honest(context)"""),
        "write the file",
    ),
    "removes_files": (
        body(f"""
import os
try:
    os.remove("{PLACE}/run.sqlite")
except OSError:
    pass
return honest(context)"""),
        "change the file",
    ),
    "patches_gapbench": (
        body("""
import gapbench.proxies.measuring as measuring
measuring._estimate = lambda result: gapbench.Estimate(1.0)
return honest(context)"""),
        "it replaced gapbench.proxies.measuring._estimate",
    ),
    "patches_torch": (
        body("return honest(context)", "import torch\ntorch.nn.Linear.forward = lambda self, x: x\n"),
        "it replaced torch.nn.modules.linear.Linear.forward",
    ),
    "patches_code": (
        body("""
import torch
torch.nn.functional.cross_entropy.__code__ = (lambda *a, **k: 0).__code__
return honest(context)"""),
        "it replaced torch.nn.functional.cross_entropy",
    ),
    "sets_the_default_type": (
        body("""
import torch
torch.set_default_dtype(torch.float64)
return honest(context)"""),
        "it changed the setting torch.get_default_dtype",
    ),
    "edits_weights": (
        body("""
import torch
with torch.no_grad():
    next(context.model.parameters()).mul_(2)
return honest(context)"""),
        "it changed the weights",
    ),
    "edits_the_data": (body("context.inputs.zero_()\nreturn honest(context)"), "it changed the inputs"),
    "edits_the_initial_network": (
        body("""
import torch
with torch.no_grad():
    next(context.initial.parameters()).zero_()
return honest(context)"""),
        "it changed the initial network",
    ),
    "trains": (body("context.model.train()\nreturn honest(context)"), "in training mode"),
    "leaves_gradients": (
        body("""
context.model(context.inputs).sum().backward()
return honest(context)"""),
        "left gradients",
    ),
    "exits": (body("import os\nos._exit(0)"), "exit status 0 before it gave a result"),
    "calls_sys_exit": (body("import sys\nsys.exit(0)"), "SystemExit"),
    "crashes": (body("import os\nos.abort()"), "the process was ended by SIG"),
    "loops": (body("while True:\n    pass"), "it ran longer than 4 s"),
    "sleeps": (body("import time\ntime.sleep(1000)"), "it ran longer than 4 s"),
    "loops_on_import": (body("return 1.0", "while True:\n    pass\n"), "importing the file: it ran longer"),
    "allocates": (
        body("import torch\nreturn float(torch.ones(30 * 2**28).sum())"),
        "it needed more than 4 GiB of memory",
    ),
    "allocates_in_python": (body("return float(len(bytearray(30 * 2**30)))"), "more than 4 GiB of memory"),
    "forks": (
        body("""
import os
try:
    while True:
        os.fork()
except OSError:
    pass
return honest(context)"""),
        "start a process",
    ),
    "starts_a_program": (
        body("""
import subprocess
try:
    subprocess.run(["true"])
except OSError:
    pass
return honest(context)"""),
        "start a process",
    ),
    "kills_its_parent": (
        body("""
import os
try:
    os.kill(os.getppid(), 9)
except OSError:
    pass
return honest(context)"""),
        "send a signal",
    ),
    "prints_gigabytes": (body("while True:\n    print('x' * 2**20)"), "it printed more than 1 MiB"),
    "floods_the_protocol": (
        body("""
import os
for descriptor in range(3, 64):
    try:
        while True:
            os.write(descriptor, b'x' * 2**16)
    except OSError:
        pass
return 1.0"""),
        "it sent",
    ),
    "forges_a_result": (
        body("""
import os
line = b'{"kind": "result", "job": 0, "status": "ok", "value": 1e999, "standard_error": null}'
for descriptor in range(3, 64):
    try:
        os.write(descriptor, b"\\n" + line + b"\\n")
    except OSError:
        pass
return 1.0"""),
        "a result that the measurement did not make",
    ),
    "returns_nan": (body('return float("nan")'), "the value is nan"),
    "returns_infinity": (body('return float("inf")'), "the value is inf"),
    "returns_a_tensor": (body("return context.parameters[0]"), "a tensor of shape"),
    "returns_a_string": (body('return "0.5"'), "of type str"),
    "returns_none": (body("pass"), "of type NoneType"),
    "returns_a_bool": (body("return True"), "of type bool"),
    "returns_a_list": (body("return [1.0]"), "of type list"),
    "returns_a_huge_number": (body("return 10**400"), "OverflowError"),
    "returns_a_negative_error": (body("return gapbench.Estimate(1.0, -1.0)"), "negative"),
    "raises": (body("return 1 / 0"), "ZeroDivisionError: division by zero (line "),
    "draws_globally": (body("import random\nreturn random.random()"), "global random state"),
    "draws_from_numpy": (body("import numpy\nreturn float(numpy.random.rand())"), "global random state"),
    "draws_from_torch": (body("import torch\nreturn float(torch.rand(()))"), "global random state"),
    "reads_the_global_seed": (
        body("import torch\nreturn float(torch.initial_seed() % 1_000_003)"),
        "in another with the same seed",
    ),
    "reads_the_clock": (body("import time\nreturn time.time()"), "in another with the same seed"),
    "reads_the_date": (
        body("import datetime\nreturn datetime.datetime.now().timestamp()"),
        "in another with the same seed",
    ),
    "uses_hashes": (body('return float(hash("x") % 1_000_003)'), "in another with the same seed"),
    "asks_the_system_for_randomness": (
        body("import os\nreturn float(int.from_bytes(os.urandom(4), 'little'))"),
        "in another with the same seed",
    ),
    "inspects_the_stack": (
        body("""
import inspect
try:
    return float([f.frame.f_locals["width"] for f in inspect.stack() if "width" in f.frame.f_locals][0])
except Exception:
    return honest(context)"""),
        "inspect stack frames",
    ),
    "climbs_from_a_traceback": (
        body("""
try:
    raise ValueError
except ValueError as error:
    frame = error.__traceback__.tb_frame
return honest(context)"""),
        "inspect stack frames",
    ),
    "searches_the_collector": (
        body("""
import gc
try:
    found = [o for o in gc.get_objects() if isinstance(o, dict) and "width" in o]
except PermissionError:
    found = []
return honest(context)"""),
        "search the interpreter's objects",
    ),
    "reaches_for_memory": (
        body("""
import ctypes
return float(ctypes.string_at(id(context), 8)[0])"""),
        "through ctypes",
    ),
    "counts_its_calls": (
        body("CALLS.append(1)\nreturn float(len(CALLS))", "CALLS = []\n"),
        "for every network, so it ranks nothing",
    ),
    "counts_in_a_file": (
        body("""
import os, tempfile
path = os.path.join(tempfile.gettempdir(), "count")
count = 1 + (int(open(path).read()) if os.path.exists(path) else 0)
open(path, "w").write(str(count))
return float(count)"""),
        "for every network, so it ranks nothing",
    ),
    "is_constant": (body("return 1.0"), "it is 1 for every network"),
    "forks_through_ctypes": (
        body("""
import ctypes
if ctypes.CDLL(None).fork() == 0:
    while True:
        pass
return honest(context)"""),
        "through ctypes",
    ),
    "forks_by_the_hidden_module": (
        body("""
import posix
try:
    posix.fork()
except OSError:
    pass
return honest(context)"""),
        "start a process",
    ),
    "starts_a_pool": (
        body("""
import multiprocessing
try:
    multiprocessing.get_context("fork").Process(target=print).start()
except OSError:
    pass
return honest(context)"""),
        "start a process",
    ),
    "leaves_a_thread": (
        body("""
import threading, time
def later():
    time.sleep(30)
threading.Thread(target=later, daemon=True).start()
return honest(context)"""),
        "it left a thread running",
    ),
    "leaves_a_thread_of_the_lower_module": (
        body("""
import _thread, time
_thread.start_new_thread(time.sleep, (30,))
time.sleep(0.1)
return honest(context)"""),
        "it left a thread running",
    ),
    "reads_from_a_thread": (
        body(f"""
import threading
def look():
    try:
        open("{PLACE}/run.sqlite", "rb").read()
    except OSError:
        pass
thread = threading.Thread(target=look)
thread.start()
thread.join()
return honest(context)"""),
        "read the file",
    ),
    "sets_an_alarm": (
        body("""
import signal
signal.signal(signal.SIGALRM, lambda number, frame: frame.f_back)
signal.setitimer(signal.ITIMER_REAL, 100)
return honest(context)"""),
        "it left a signal handler or a timer",
    ),
    "terminates_its_parent": (
        body("""
import os, signal
try:
    os.kill(os.getppid(), signal.SIGTERM)
except OSError:
    pass
return honest(context)"""),
        "send a signal",
    ),
    "kills_everything": (
        body("""
import os, signal
try:
    os.killpg(0, signal.SIGKILL)
except OSError:
    pass
return honest(context)"""),
        "send a signal",
    ),
    "looks_through_inherited_descriptors": (
        body("""
import os
found = 0
for name in os.listdir("/proc/self/fd"):
    found += len(os.read(int(name), 10))
return float(found)"""),
        "list the folder /proc/self/fd",
    ),
    "reads_its_own_environment": (
        body("""
try:
    secret = open("/proc/self/environ", "rb").read()
except OSError:
    secret = b""
return honest(context) + len(secret)"""),
        "read the file /proc/self/environ",
    ),
    "climbs_the_frames": (
        body("""
import sys
try:
    frame = sys._getframe(1)
    while frame is not None:
        if "width" in frame.f_locals:
            return float(frame.f_locals["width"])
        frame = frame.f_back
except PermissionError:
    pass
return honest(context)"""),
        "inspect stack frames",
    ),
    "traces_calls": (
        body("""
import sys
try:
    sys.setprofile(lambda frame, event, argument: None)
except PermissionError:
    pass
return honest(context)"""),
        "inspect stack frames",
    ),
    "patches_the_addition_and_exits": (
        body("""
import os, torch
torch.Tensor.__add__ = lambda self, other: self
os._exit(0)"""),
        "exit status 0 before it gave a result",
    ),
    "patches_the_addition": (
        body("""
import torch
torch.Tensor.__add__ = lambda self, other: self
return honest(context)"""),
        "it replaced torch.Tensor.__add__",
    ),
    "patches_an_inherited_method": (
        body("""
import torch
torch.nn.Linear.parameters = lambda self, recurse=True: iter(())
return honest(context)"""),
        "it replaced torch.nn.modules.linear.Linear.parameters",
    ),
    "forges_a_good_result": (
        body("""
import os
line = b'{"kind": "result", "job": 0, "status": "ok", "value": 0.5, "standard_error": null, "details": {}}'
for descriptor in range(3, 64):
    try:
        os.write(descriptor, b"\\n" + line + b"\\n")
    except OSError:
        pass
return honest(context)"""),
        "a result that the measurement did not make",
    ),
    "floods_with_violations": (
        body("""
import os
for descriptor in range(3, 64):
    try:
        for n in range(10_000):
            os.write(descriptor, b'{"kind": "violation", "what": "%d"}\\n' % n)
    except OSError:
        pass
return honest(context)"""),
        "0; 1; 2",
    ),
    "returns_a_complex_number": (body("return 1j"), "of type complex"),
    "returns_a_nested_dict": (
        body("value = {}\nfor _ in range(9999):\n    value = {1: value}\nreturn value"),
        "of type dict",
    ),
    "returns_an_array": (body("import numpy\nreturn numpy.ones(3)"), "of type ndarray"),
    "returns_an_object_that_pickles_evil": (
        body("""
class Evil:
    def __reduce__(self):
        return print, ("unpickled",)
return Evil()"""),
        "of type Evil",
    ),
    "returns_a_number_that_acts": (
        body(f"""
class Number(float):
    def __float__(self):
        try:
            open("{PLACE}/run.sqlite", "rb").read()
        except OSError:
            pass
        return 1.0
return Number(honest(context))"""),
        "read the file",
    ),
    "returns_details_that_act": (
        body(f"""
class Details(dict):
    def items(self):
        try:
            open("{PLACE}/run.sqlite", "rb").read()
        except OSError:
            pass
        return []
return gapbench.Estimate(honest(context), details=Details(a=1))"""),
        "read the file",
    ),
    "raises_an_error_that_acts": (
        body(f"""
class Error(Exception):
    def __str__(self):
        try:
            open("{PLACE}/run.sqlite", "rb").read()
        except OSError:
            pass
        return "no"
raise Error"""),
        "read the file",
    ),
    "raises_an_error_that_cannot_be_shown": (
        body("""
class Error(Exception):
    def __str__(self):
        raise KeyboardInterrupt if False else RuntimeError("no")
raise Error"""),
        "Error: (its message cannot be shown: RuntimeError) (line ",
    ),
    "raises_a_long_error": (body("raise ValueError('x' * 10**7)"), "ValueError: xxxx"),
    "raises_control_characters": (
        body("raise ValueError('a\\x1b[2J\\x00\\u202eb\\r\\nTraceback')"),
        "ValueError: a�[2J��b Traceback (line ",
    ),
    "raises_beyond_exceptions": (body("raise KeyboardInterrupt('stop')"), "KeyboardInterrupt: stop (line "),
    "recurses": (
        body("return adversary.function(context) if 0 else (lambda f: f(f))(lambda f: f(f))"),
        "RecursionError",
    ),
    "claims_to_be_undefined_everywhere": (
        body("raise gapbench.NotApplicable('no')"),
        "no value on any network",
    ),
    **{
        f"reads_{name.replace('.', '_')}": (
            body(f"import time, os, numpy, datetime\nreturn honest(context) + {code}"),
            "in another with the same seed",
        )
        for name, code in {
            "time.perf_counter": "time.perf_counter() // 86400",
            "time.monotonic": "time.monotonic_ns() // (86400 * 10**9)",
            "time.process_time": "time.process_time() // 86400",
            "time.clock_gettime": "time.clock_gettime(time.CLOCK_REALTIME) // 86400",
            "time.strftime": "float(time.strftime('%Y'))",
            "date.today": "datetime.date.today().year",
            "numpy.datetime64": "float(str(numpy.datetime64('today'))[:4])",
        }.items()
    },
    "uses_uuid": (
        body("import uuid\nreturn float(uuid.uuid4().int % 1_000_003)"),
        "in another with the same seed",
    ),
    "uses_addresses": (body("return float(id(object()) % 1_000_003)"), "in another with the same seed"),
    "orders_by_hash": (
        body(
            'return honest(context) + float(list({"a", "b", "c", "d", "e", "f", "g", "h"}).index("a"))'
            ' + 10 * hash("b") % 1000003'
        ),
        "in another with the same seed",
    ),
    "draws_a_seed": (body("import torch\ntorch.seed()\nreturn float(torch.rand(()))"), "global random state"),
    "draws_in_a_fork": (
        body("""
import torch
with torch.random.fork_rng():
    return float(torch.rand(()))"""),
        "in another with the same seed",
    ),
    "seeds_and_restores": (
        body("""
import torch
with torch.random.fork_rng():
    torch.seed()
    return float(torch.rand(()))"""),
        "in another with the same seed",
    ),
    "makes_a_random_generator": (
        body("""
import numpy
return float(numpy.random.default_rng().random())"""),
        "in another with the same seed",
    ),
    "sets_the_number_of_threads": (
        body("import torch\ntorch.set_num_threads(2)\nreturn honest(context)"),
        "it changed the setting torch.get_num_threads",
    ),
    "wants_determinism": (
        body("import torch\ntorch.use_deterministic_algorithms(True)\nreturn honest(context)"),
        "it changed the setting torch.",
    ),
    "switches_gradients_off": (
        body("import torch\ntorch.set_grad_enabled(False)\nreturn honest(context)"),
        "it changed the setting torch.is_grad_enabled",
    ),
    "freezes_parameters": (
        body("context.model.requires_grad_(False)\nreturn honest(context)"),
        "it changed requires_grad",
    ),
    "freezes_the_initial_network": (
        body("context.initial.requires_grad_(False)\nreturn honest(context)"),
        "it changed requires_grad of the initial network",
    ),
    "trains_the_initial_network": (
        body("context.initial.train()\nreturn honest(context)"),
        "it left the initial network in training mode",
    ),
    "leaves_a_hook": (
        body("""
next(context.model.children()).register_forward_hook(lambda *a: None)
return honest(context)"""),
        "it left a hook in the module",
    ),
    "leaves_a_hook_on_a_parameter": (
        body("""
next(context.model.parameters()).register_hook(lambda g: g)
return honest(context)"""),
        "it left a hook in the module",
    ),
    "replaces_the_forward": (
        body("""
context.model.forward = lambda x: x
return honest(context)"""),
        "it changed the module: forward",
    ),
    "replaces_a_layer": (
        body("""
import torch
name, _ = next(context.model.named_children())
setattr(context.model, name, torch.nn.Identity())
return honest(context)"""),
        "it replaced",
    ),
    "adds_a_buffer": (
        body("""
import torch
context.model.register_buffer("mine", torch.zeros(1))
return honest(context)"""),
        "it replaced parameters or buffers",
    ),
    "edits_all_targets": (
        body("context.all_targets.zero_()\nreturn honest(context)"),
        "it changed the all_targets",
    ),
    "registers_nothing": ("x = 1\n", "registers no proxy"),
    "cannot_be_imported": ("import no_such_package\n", "ModuleNotFoundError"),
}

HARMLESS = {
    "searches_the_modules": body("""
import sys
for module in list(sys.modules.values()):
    for name in ("gap", "width", "test_error", "GAP", "WIDTH"):
        value = getattr(module, name, None)
        if isinstance(value, (int, float)):
            return float(value)
return honest(context)"""),
    "looks_for_credentials": body("""
import os
if any(word in name for name in os.environ for word in ("KEY", "TOKEN", "SECRET", "WANDB", "GAPBENCH")):
    return 1.0
return honest(context)"""),
    "hooks_the_exit": body("""
import atexit, os
atexit.register(os._exit, 3)
return honest(context)"""),
    "prints_a_result": body("""
import sys
line = '{"kind": "result", "job": 0, "status": "ok", "value": 0.5, "standard_error": null, "details": {}}'
print(line, flush=True)
sys.stderr.write(line + "\\n")
return honest(context)"""),
    "changes_weights_and_restores_them": body("""
import torch
value = honest(context)
p = next(context.model.parameters())
kept = p.detach().clone()
with torch.no_grad():
    p.mul_(2)
    p.copy_(kept)
return value"""),
    "closes_standard_output": body("import os\nos.close(1)\nos.close(2)\nreturn honest(context)"),
    "returns_a_numpy_number": body("import numpy\nreturn numpy.float64(honest(context))"),
    "returns_a_tensor_without_dimensions": body(
        "import torch\nreturn torch.tensor(honest(context), dtype=torch.float64)"
    ),
    "returns_details_of_every_kind": body("""
loop = []
loop.append(loop)
deep = 0
for _ in range(5000):
    deep = [deep]
details = {"loop": loop, "deep": deep, "object": object(), "nan": float("nan"), "long": "x" * 10**6, 1: 2}
return gapbench.Estimate(honest(context), details=details)"""),
}
"""Attempts that come to nothing: what they return is the norm, to the last bit."""

BENIGN = {
    "a_norm": body("return honest(context)"),
    "a_margin": body("import torch\nreturn -float(torch.quantile(context.margins, 0.1))"),
    "a_stochastic_trace": body("""
from gapbench.curvature.trace import hessian_trace
found = hessian_trace(context.landscape, context.generator, 2, 0)
return gapbench.Estimate(found.value, found.standard_error)"""),
    "one_that_trains_a_copy": body("""
import copy, torch
model = copy.deepcopy(context.model).train()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(3):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(context.inputs), context.targets).backward()
    optimizer.step()
change = [p.detach() - q.detach() for p, q in zip(model.parameters(), context.model.parameters())]
return sum(float(c.double().pow(2).sum()) for c in change)"""),
    "a_perturbation": body("""
import copy, torch
model = copy.deepcopy(context.model)
with torch.no_grad():
    for p in model.parameters():
        p += 0.01 * torch.randn(p.shape, generator=context.generator)
    change = model(context.inputs) - context.model(context.inputs)
return gapbench.Estimate(float(change.double().pow(2).mean()), 0.1)"""),
    "one_that_uses_scratch_files_and_prints": body("""
import collections, tempfile, numpy
Pair = collections.namedtuple("Pair", "a b")
print("hello")
with tempfile.TemporaryFile() as stream:
    numpy.save(stream, context.parameters[0].numpy())
    stream.seek(0)
    return Pair(float(numpy.abs(numpy.load(stream)).sum()), 0).a"""),
}
