"""Notice what a proxy has no business to do, refuse it, and say so at once.

Python's audit events name the attempt, so that an author reads "it tried to use the network" and not only an
error of the operating system. The hook cannot be taken off, but code that works around Python is not seen by
it: it reports, and the sandbox protects.
"""

from __future__ import annotations

import inspect
import os
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

NETWORK = ("socket.", "urllib.Request", "http.client.", "ftplib.", "smtplib.", "imaplib.", "poplib.")
PROCESSES = (
    "os.fork",
    "os.forkpty",
    "os.posix_spawn",
    "os.exec",
    "os.spawn",
    "os.system",
    "os.startfile",
    "subprocess.Popen",
    "pty.spawn",
)
SIGNALS = ("os.kill", "os.killpg", "signal.pthread_kill")
LISTINGS = ("os.listdir", "os.scandir", "os.walk", "os.fwalk", "glob.glob", "pathlib.Path.glob")
CHANGES = (
    "os.chflags",
    "os.chmod",
    "os.chown",
    "os.link",
    "os.mkdir",
    "os.remove",
    "os.removexattr",
    "os.rename",
    "os.rmdir",
    "os.setxattr",
    "os.symlink",
    "os.truncate",
    "os.utime",
)
FRAMES = ("sys._getframe", "sys._current_frames", "sys._current_exceptions", "sys.settrace", "sys.setprofile")
COLLECTOR = ("gc.get_objects", "gc.get_referrers", "gc.get_referents")
FRAME_ATTRIBUTES = ("tb_frame", "gi_frame", "cr_frame", "ag_frame")
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Watch:
    """An audit hook, active between `begin` and `end`.

    Files below `readable` may be read, except those below `hidden`; files below `writable` may be changed.
    `tell` hears of every refused attempt in words.
    """

    def __init__(
        self,
        tell: Callable[[str], None],
        own_file: str,
        readable: Sequence[str],
        hidden: Sequence[str],
        writable: Sequence[str],
    ):
        self._tell, self._own = tell, own_file
        self._readable = tuple(os.path.realpath(path) for path in readable)
        self._hidden = tuple(os.path.realpath(path) for path in hidden)
        self._writable = tuple(os.path.realpath(path) for path in writable)
        self._active = False
        self._busy = threading.local()
        self._wrappers = tuple(
            file for module in (inspect, traceback) if (file := getattr(module, "__file__", None))
        )
        # Bound now: the code that is watched may put something else into these modules.
        self._realpath, self._fspath, self._getframe = os.path.realpath, os.fspath, sys._getframe
        sys.addaudithook(self._hook)

    def begin(self) -> None:
        """Watch from now on."""
        self._active = True

    def end(self) -> None:
        """Watch no longer."""
        self._active = False

    def _hook(self, event: str, arguments: tuple[object, ...]) -> None:
        if not self._active or getattr(self._busy, "now", False):
            return
        self._busy.now = True
        try:
            what = self._judge(event, arguments)
        finally:
            self._busy.now = False
        if what:
            self._busy.now = True
            try:
                self._tell(what)
            finally:
                self._busy.now = False
            raise PermissionError(f"a proxy may not do this: {what}")

    def _judge(self, event: str, arguments: tuple[object, ...]) -> str:
        if event == "open":
            return self._opened(*arguments[:3])
        if event == "object.__getattr__":
            if arguments[1] in FRAME_ATTRIBUTES and self._blamed(3, through=(self._wrappers[0],)):
                return "it tried to inspect stack frames"
            return ""
        if event in FRAMES:
            return "it tried to inspect stack frames" if self._blamed(3, self._wrappers) else ""
        if event in COLLECTOR:
            return "it tried to search the interpreter's objects" if self._blamed(3) else ""
        if event.startswith(NETWORK):
            return "it tried to use the network"
        if event in PROCESSES:
            return "it tried to start a process"
        if event in SIGNALS:
            return "it tried to send a signal to a process"
        if event in CHANGES:
            return self._changed(arguments[0])
        if event in LISTINGS:
            return self._listed(arguments[0] if arguments else ".")
        if event == "sqlite3.connect":
            path = arguments[0] if arguments else ""
            return "" if path == ":memory:" else f"it tried to open the database {self._named(path)}"
        if event.startswith("ctypes."):
            foreign = self._blamed(3, ("ctypes/__init__.py",))
            return "it tried to reach memory or libraries through ctypes" if foreign else ""
        return ""

    def _opened(self, path: object, mode: object, flags: object) -> str:
        if isinstance(path, int):
            return ""
        name, full = self._named(path), self._full(path)
        writes = bool(flags & _WRITING) if isinstance(flags, int) else False
        writes = writes or (isinstance(mode, str) and any(letter in mode for letter in "wax+"))
        if full in ("/dev/null", "/dev/urandom", "/dev/random", self._own):
            return ""
        if _below(full, self._writable):
            return ""
        if writes:
            return f"it tried to write the file {name}"
        if _below(full, self._readable) and not _below(full, self._hidden):
            return ""
        return f"it tried to read the file {name}"

    def _changed(self, path: object) -> str:
        if isinstance(path, int) or _below(self._full(path), self._writable):
            return ""
        return f"it tried to change the file {self._named(path)}"

    def _listed(self, path: object) -> str:
        if isinstance(path, int):
            return ""
        full = self._full("." if path is None else path)
        if _below(full, (*self._readable, *self._writable)) and not _below(full, self._hidden):
            return ""
        return f"it tried to list the folder {self._named(path)}"

    def _full(self, path: Any) -> str:
        try:
            name = self._fspath(path)
            return self._realpath(name.decode(errors="replace") if isinstance(name, bytes) else str(name))
        except (TypeError, ValueError, OSError):
            return ""

    def _named(self, path: Any) -> str:
        try:
            return str(self._fspath(path))[:200]
        except TypeError:
            return type(path).__name__

    def _blamed(self, depth: int, through: Sequence[str] = ()) -> bool:
        """Whether the watched file raised the event itself, or one of the modules `through` on its behalf."""
        frame: FrameType | None = self._getframe(depth)
        while frame is not None and frame.f_code.co_filename.endswith(tuple(through) or ("\0",)):
            frame = frame.f_back
        if frame is None:
            return False
        file = frame.f_code.co_filename
        return file == self._own or (file.startswith("<") and not file.startswith("<frozen"))


def _below(path: str, folders: Sequence[str]) -> bool:
    return any(path == folder or path.startswith(folder.rstrip("/") + "/") for folder in folders)
