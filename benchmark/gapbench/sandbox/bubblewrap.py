"""The walls: a bubblewrap command line that shows the libraries and nothing else of the machine."""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterable
from pathlib import Path

from gapbench.sandbox.host import SCRATCH

PACKAGES = "/packages"
"""Where the sandbox has gapbench's own packages, and those of plug-ins."""

INSTALL = "install bubblewrap (Debian, Ubuntu: apt-get install bubblewrap; Fedora: dnf install bubblewrap)"


@functools.cache
def unavailable() -> str:
    """Why the sandbox cannot be used on this machine, in words; empty where it can."""
    program = shutil.which("bwrap")
    if program is None:
        return f"bubblewrap (bwrap) is not installed; {INSTALL}"
    probe = (
        "import sys; sys.path.insert(0, '/packages'); from gapbench.sandbox.namespaces import *; import os; "
        f"unshare(); p = os.fork(); p or (cover('{SCRATCH}', 65536), cover('/proc', 4096), os._exit(0)); "
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(p, 0)[1]))"
    )
    command, descriptor = command_line([sys.executable, "-B", "-S", "-c", probe], [])
    try:
        done = subprocess.run(
            command, pass_fds=[descriptor], capture_output=True, text=True, env={}, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bubblewrap cannot be used here ({error})"
    finally:
        os.close(descriptor)
    if done.returncode != 0:
        lines = (done.stderr or "").strip().splitlines() or [f"exit status {done.returncode}"]
        return f"bubblewrap cannot make a sandbox here ({lines[-1]}); are user namespaces switched off?"
    return ""


def command_line(payload: list[str], packages: Iterable[str]) -> tuple[list[str], int]:
    """The command that runs `payload` sandboxed, and the descriptor that it must inherit, to be closed after.

    The options travel through that descriptor, so that no process list shows them. `packages` are further
    top-level packages that the networks' classes come from.

    Returns:
        The command, and the descriptor.
    """
    options = [*_isolation(), *_file_system(packages), *_environment(), "--chdir", SCRATCH]
    with tempfile.TemporaryFile() as reader:
        reader.write(b"".join(option.encode() + b"\0" for option in options))
        reader.seek(0)
        descriptor = os.dup(reader.fileno())
    return [shutil.which("bwrap") or "bwrap", "--args", str(descriptor), "--", *payload], descriptor


def _isolation() -> list[str]:
    return [
        *("--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"),
        *("--unshare-cgroup-try", "--hostname", "sandbox", "--die-with-parent", "--new-session"),
        *("--uid", "65534", "--gid", "65534", "--cap-drop", "ALL"),
    ]


def _file_system(packages: Iterable[str]) -> list[str]:
    options = ["--ro-bind", "/usr", "/usr"]
    for name in ("/bin", "/sbin", "/lib", "/lib32", "/lib64"):
        if os.path.islink(name):
            options += ["--symlink", os.readlink(name), name]
        elif os.path.isdir(name):
            options += ["--ro-bind", name, name]
    for name in ("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives"):
        options += ["--ro-bind-try", name, name]
    options += ["--proc", "/proc", "--dev", "/dev", "--dir", "/dev/shm", "--tmpfs", "/tmp"]
    shown = library_folders()
    for folder in shown:
        options += ["--ro-bind", folder, folder]
    for folder in hidden_folders():
        if any(_within(folder, top) for top in (*shown, "/usr")):
            options += ["--tmpfs", folder, "--remount-ro", folder]
    for package in ("gapbench", "gapbench_base", "gapbench_models", *packages):
        found = package_folder(package)
        if found is not None:
            options += ["--ro-bind", found, f"{PACKAGES}/{package}"]
        elif (module := importlib.util.find_spec(package)) is not None and module.origin:
            options += ["--ro-bind", module.origin, f"{PACKAGES}/{package}.py"]
    options += ["--size", str(16 * 2**20), "--tmpfs", SCRATCH]
    for name in ("/tmp", "/dev", "/"):
        options += ["--remount-ro", name]
    return options


def _environment() -> list[str]:
    options = ["--clearenv"]
    for name, value in environment(SCRATCH, [PACKAGES]).items():
        options += ["--setenv", name, value]
    return options


def environment(home: str, python_path: Iterable[str]) -> dict[str, str]:
    """The whole environment of a sandboxed process."""
    variables = {
        "PATH": "/usr/bin:/bin",
        "HOME": home,
        "USER": "nobody",  # torch may ask for a name, and the sandbox has no list of users
        "TMPDIR": home,
        "LANG": "C.UTF-8",
        "PYTHONPATH": os.pathsep.join(python_path),
        "PYTHONHASHSEED": "random",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    variables |= dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    for name in ("LD_LIBRARY_PATH",):
        if name in os.environ:
            variables[name] = os.environ[name]
    return variables


def library_folders() -> list[str]:
    """Folders of the Python installation and its libraries that are not below /usr."""
    paths = {sys.prefix, sys.base_prefix, sys.exec_prefix}
    paths |= {path for name in ("purelib", "platlib", "stdlib") if (path := sysconfig.get_path(name))}
    for module in ("torch", "numpy", "timm", "torchvision"):
        found = importlib.util.find_spec(module)
        if found is not None and found.origin:
            paths.add(str(Path(found.origin).parent.parent))
    # A symbolic link is shown under both names, as either may be asked for.
    paths |= {os.path.realpath(path) for path in paths}
    home = os.path.realpath(os.path.expanduser("~"))
    chosen: list[str] = []
    for path in sorted(paths):
        whole = _within(home, os.path.realpath(path))  # the home itself, or what contains it
        if os.path.isdir(path) and not whole and not any(_within(path, top) for top in ("/usr", *chosen)):
            chosen.append(path)
    return chosen


def hidden_folders() -> list[str]:
    """Folders among the libraries that hold data of tasks, or what makes them."""
    folders: dict[str, None] = {}
    for package, part in (("gapbench_tasks", ""), ("sklearn", "datasets/data")):
        found = importlib.util.find_spec(package)
        for place in [] if found is None else list(found.submodule_search_locations or ()):
            folder = os.path.join(place, part).rstrip("/")
            if os.path.isdir(folder):
                folders |= {folder: None, os.path.realpath(folder): None}
    return list(folders)


def package_folder(package: str) -> str | None:
    """Where an importable package lies; None for what is no package."""
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        return None
    return os.path.realpath(next(iter(found.submodule_search_locations)))


def _within(path: str, top: str) -> bool:
    return path == top or path.startswith(top.rstrip("/") + "/")
