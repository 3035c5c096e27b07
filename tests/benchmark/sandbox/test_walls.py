"""What holds without Python's help: the filter of system calls, and what a sandboxed process can find."""

import json
import os
import subprocess
import sys

import pytest

import gapbench
from benchmark.conftest import needs_sandbox
from gapbench.sandbox import bubblewrap, seccomp
from gapbench.sandbox.handover import Handover
from gapbench.sandbox.limits import Limits
from gapbench.sandbox.sandbox import Session
from gapbench.sandbox.source import source_of

RAW = """
import ctypes, errno, json, os, sys, threading
from gapbench.sandbox import seccomp
assert seccomp.install()
libc = ctypes.CDLL(None, use_errno=True)
def tried(call, *arguments):
    ctypes.set_errno(0)
    return errno.errorcode.get(ctypes.get_errno()) if call(*arguments) == -1 else "allowed"
found = {
    "fork": tried(libc.fork),
    "vfork": tried(libc.syscall, 58 if os.uname().machine == "x86_64" else 1071),
    "socket": tried(libc.socket, 2, 1, 0),
    "unix socket": tried(libc.socket, 1, 1, 0),
    "exec": tried(libc.execv, b"/bin/true", None),
    "kill parent": tried(libc.kill, os.getppid(), 0),
    "kill all": tried(libc.kill, -1, 0),
    "kill group": tried(libc.kill, 0, 0),
    "kill self": tried(libc.kill, os.getpid(), 0),
    "ptrace": tried(libc.ptrace, 16, os.getppid(), 0, 0),
    "read memory": tried(libc.process_vm_readv, os.getppid(), None, 0, None, 0, 0),
    "unshare": tried(libc.unshare, 0x10000000),
    "mount": tried(libc.mount, b"none", b"/tmp", b"tmpfs", 0, None),
    "raise a limit": tried(libc.setrlimit, 9, (ctypes.c_ulong * 2)(2**40, 2**40)),
    "read a limit": tried(libc.getrlimit, 9, (ctypes.c_ulong * 2)()),
}
thread = threading.Thread(target=lambda: found.update(thread="allowed"))
thread.start(); thread.join()
print(json.dumps(found))
"""


@pytest.mark.skipif(not seccomp.available(), reason="no filter of system calls on this system")
def test_the_filter_refuses_what_it_says_and_allows_threads():
    done = subprocess.run(
        [sys.executable, "-c", RAW],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    allowed = {"kill self", "read a limit", "thread"}
    if os.uname().machine != "x86_64":
        found.pop("vfork")
    assert {name for name, answer in found.items() if answer == "allowed"} == allowed
    assert {answer for name, answer in found.items() if name not in allowed} == {"EPERM"}


LOOK = """
import json, os, socket, sys
def found(path):
    try:
        return sorted(os.listdir(path))
    except OSError:
        return None
def readable(path):
    try:
        return bool(open(path, "rb").read(1))
    except OSError:
        return False
def writable(path):
    try:
        open(path, "w").close()
        return True
    except OSError:
        return False
def imports(name):
    try:
        __import__(name)
        return True
    except ImportError:
        return False
outside, home = sys.argv[1], sys.argv[2]
import gapbench
print(json.dumps({
    "outside": found(outside), "home": found(home), "environment": sorted(os.environ),
    "values": sorted(set(os.environ.values())), "tmp": writable("/tmp/x"), "root": writable("/x"),
    "packages": writable("/packages/x"), "dev": writable("/dev/x"), "library": writable(os.__file__ + "x"),
    "passwd": readable("/etc/passwd"), "interfaces": found("/sys/class/net"),
    "tasks": imports("gapbench_tasks.images"), "seeds": imports("gapbench_base.seeds"),
    "digits": found(os.path.join(sys.prefix, "lib", f"python3.{sys.version_info[1]}", "site-packages",
                                 "sklearn", "datasets", "data")) or [],
    "processes": [p for p in os.listdir("/proc") if p.isdigit()],
    "argv": [open(f"/proc/{p}/cmdline").read() for p in os.listdir("/proc") if p.isdigit()],
}))
"""


@needs_sandbox
def test_the_sandbox_shows_the_libraries_and_nothing_else(tmp_path, monkeypatch):
    (tmp_path / "secret").write_text("x")
    monkeypatch.setenv("WANDB_API_KEY", "k" * 40)
    home = os.path.expanduser("~")
    payload = [sys.executable, "-s", "-P", "-B", "-c", LOOK, str(tmp_path), home]
    command, descriptor = bubblewrap.command_line(payload, [])
    done = subprocess.run(command, pass_fds=[descriptor], capture_output=True, text=True, env={})
    os.close(descriptor)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["outside"] is None
    shown = bubblewrap.library_folders()
    kept = {p.removeprefix(home + "/").split("/")[0] for p in shown if p.startswith(home + "/")}
    assert set(seen["home"] or []) <= kept
    assert not [name for name in seen["environment"] if "WANDB" in name or "GAPBENCH" in name]
    assert not any("kkkk" in value for value in seen["values"])
    for place in ("tmp", "root", "packages", "dev", "library"):
        assert seen[place] is False, place
    assert not seen["passwd"]
    assert seen["interfaces"] is None
    assert seen["seeds"]
    assert not seen["tasks"]
    assert seen["digits"] == []
    assert len(seen["processes"]) <= 2
    assert not any(
        str(bubblewrap.package_folder("gapbench")) in line for line in seen["argv"] if "bwrap" in line
    )


SPY = b"""
import gapbench, os, sys
@gapbench.proxy("spy")
def spy(context):
    texts = [repr(vars(m)) for m in context.model.modules()] + [repr(context.generator.initial_seed())]
    return gapbench.Estimate(1.0, details={
        "environment": dict(os.environ), "argv": sys.argv, "folder": os.getcwd(), "pid": os.getpid(),
        "parent": os.getppid(), "descriptors": [d for d in range(256) if is_open(d)],
        "words": sorted({w for w in ("width", "dropout", "learning", "BuildRequest") for t in texts if w in t}),
        "fields": sorted(f for f in context.__dataclass_fields__ if getattr(context, f) is not None),
    })

def is_open(descriptor):
    try:
        os.fstat(descriptor)
        return True
    except OSError:
        return False
"""


@needs_sandbox
def test_what_a_proxy_finds_in_its_own_process(hosts):
    network = gapbench.build_model("plain/mlp", 0.5, (1, 8, 8), 10, seed=0)
    task = gapbench.load_task("digits_rotations", train_size=50, seed=0)
    given = Handover(network.eval(), task.train.inputs, task.train.targets, network)
    with Session(hosts[0], source_of(SPY, "spy"), Limits(), modules=given.modules()) as session:
        assert [entry["name"] for entry in session.loaded.proxies] == ["spy"]
        answer = session.measure(given, seed=0)
    assert answer.measurement.status == "ok", answer
    seen = answer.measurement.details
    assert seen["pid"] == 1
    assert seen["parent"] == 0
    assert len(seen["descriptors"]) == 5  # the three standard ones, networks in, numbers out
    assert not [v for v in seen["environment"].values() if "run" in v.lower() and v != "random"]
    assert seen["words"] == []
    assert set(seen["fields"]) <= {
        "model",
        "inputs",
        "targets",
        "num_classes",
        "generator",
        "initial",
        "loss",
        "notes",
        "_cache",
    }


@pytest.mark.parametrize("family", ["plain/mlp", "plain/cnn", "timm/resnet18", "torchvision/vgg11_bn"])
def test_the_hand_over_names_neither_family_nor_request(family):
    network = gapbench.build_model(family, 0.31, (1, 8, 8), 10, seed=0, dropout=0.0).eval()
    task = gapbench.load_task("digits_rotations", train_size=50, seed=0)
    packed = Handover(network, task.train.inputs, task.train.targets, network).packed()
    for word in (family, "0.31", "BuildRequest", "digits_rotations", "learning_rate"):
        assert word.encode() not in packed
