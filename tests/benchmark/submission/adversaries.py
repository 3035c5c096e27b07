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
        "it sent a value of inf",
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
    "registers_nothing": ("x = 1\n", "registers no proxy"),
    "cannot_be_imported": ("import no_such_package\n", "ModuleNotFoundError"),
}

BENIGN = {
    "a_norm": body("return honest(context)"),
    "a_margin": body("import torch\nreturn -float(torch.quantile(context.margins, 0.1))"),
    "a_stochastic_trace": body("""
from gapbench.curvature.trace import hessian_trace
found = hessian_trace(context.landscape, context.generator, 2, 0)
return gapbench.Estimate(found.value, found.standard_error)"""),
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
