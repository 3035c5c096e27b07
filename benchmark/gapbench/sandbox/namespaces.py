"""A private view of the system for one forked process: its own process, mount, network and IPC space (Linux)."""

from __future__ import annotations

import ctypes
import os

_NEWNS, _NEWIPC, _NEWUSER, _NEWPID, _NEWNET = 0x00020000, 0x08000000, 0x10000000, 0x20000000, 0x40000000
_NOSUID_NODEV = 2 | 4


def unshare() -> None:
    """Enter new namespaces; the next process forked is the first of its process space. Raises `OSError`.

    Works without privileges inside bubblewrap, by way of a further user namespace.
    """
    user, group = os.getuid(), os.getgid()
    libc = ctypes.CDLL(None, use_errno=True)
    _check(libc.unshare(_NEWUSER | _NEWNS | _NEWPID | _NEWIPC | _NEWNET))
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{user} {user} 1"),
        ("gid_map", f"{group} {group} 1"),
    ):
        with open(f"/proc/self/{name}", "w") as stream:
            stream.write(text)


def cover(folder: str, size: int) -> None:
    """Put an empty file system in memory of `size` bytes over a folder. Raises `OSError`."""
    libc = ctypes.CDLL(None, use_errno=True)
    options = f"size={size},mode=1777".encode()
    _check(libc.mount(b"tmpfs", folder.encode(), b"tmpfs", _NOSUID_NODEV, options))


def drop_capabilities() -> None:
    """Give up every capability. Raises `OSError`."""
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    _check(libc.capset(header, (ctypes.c_uint32 * 6)()))


def end_with_parent() -> None:
    """Be killed when the parent ends. Raises `OSError`."""
    import signal

    libc = ctypes.CDLL(None, use_errno=True)
    _check(libc.prctl(1, signal.SIGKILL, 0, 0, 0))  # PR_SET_PDEATHSIG


def _check(result: int) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
