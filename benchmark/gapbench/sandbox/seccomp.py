"""System calls that a proxy is refused, by a filter that nothing in the process can take off again (Linux).

Needs no privilege. Refused are new processes and programs, sockets, signals to others, other processes'
memory, mounts and namespaces, and raising limits; threads stay possible.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys

_CLONE_THREAD = 0x00010000
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_LOAD, _EQUAL, _GREATER_EQUAL, _SET, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_X32 = 0x40000000

# (audit architecture, number of seccomp(2), number of clone and clone3, refused outright,
#  refused unless the first argument is the own process, refused if the third argument is not null)
_X86_64 = (
    0xC000003E,
    317,
    56,
    {
        "fork": 57,
        "vfork": 58,
        "execve": 59,
        "execveat": 322,
        "socket": 41,
        "ptrace": 101,
        "process_vm_readv": 310,
        "process_vm_writev": 311,
        "kcmp": 312,
        "pidfd_open": 434,
        "pidfd_getfd": 438,
        "pidfd_send_signal": 424,
        "tkill": 200,
        "rt_sigqueueinfo": 129,
        "rt_tgsigqueueinfo": 297,
        "setrlimit": 160,
        "mount": 165,
        "umount2": 166,
        "pivot_root": 155,
        "chroot": 161,
        "unshare": 272,
        "setns": 308,
        "open_tree": 428,
        "move_mount": 429,
        "fsopen": 430,
        "fsconfig": 431,
        "fsmount": 432,
        "fspick": 433,
        "mount_setattr": 442,
        "bpf": 321,
        "perf_event_open": 298,
        "io_uring_setup": 425,
        "userfaultfd": 323,
        "add_key": 248,
        "request_key": 249,
        "keyctl": 250,
        "shmget": 29,
        "msgget": 68,
        "semget": 64,
        "mq_open": 240,
        "open_by_handle_at": 304,
        "init_module": 175,
        "finit_module": 313,
        "kexec_load": 246,
        "reboot": 169,
        "swapon": 167,
        "setuid": 105,
        "setgid": 106,
        "setreuid": 113,
        "setresuid": 117,
    },
    {"kill": 62, "tgkill": 234},
    {"prlimit64": 302},
)
_AARCH64 = (
    0xC00000B7,
    277,
    220,
    {
        "execve": 221,
        "execveat": 281,
        "socket": 198,
        "ptrace": 117,
        "process_vm_readv": 270,
        "process_vm_writev": 271,
        "kcmp": 272,
        "pidfd_open": 434,
        "pidfd_getfd": 438,
        "pidfd_send_signal": 424,
        "tkill": 130,
        "rt_sigqueueinfo": 138,
        "rt_tgsigqueueinfo": 240,
        "setrlimit": 164,
        "mount": 40,
        "umount2": 39,
        "pivot_root": 41,
        "chroot": 51,
        "unshare": 97,
        "setns": 268,
        "open_tree": 428,
        "move_mount": 429,
        "fsopen": 430,
        "fsconfig": 431,
        "fsmount": 432,
        "fspick": 433,
        "mount_setattr": 442,
        "bpf": 280,
        "perf_event_open": 241,
        "io_uring_setup": 425,
        "userfaultfd": 282,
        "add_key": 217,
        "request_key": 218,
        "keyctl": 219,
        "shmget": 194,
        "msgget": 186,
        "semget": 190,
        "mq_open": 180,
        "open_by_handle_at": 265,
        "init_module": 105,
        "finit_module": 273,
        "kexec_load": 104,
        "reboot": 142,
        "swapon": 224,
        "setuid": 146,
        "setgid": 144,
        "setreuid": 145,
        "setresuid": 147,
    },
    {"kill": 129, "tgkill": 131},
    {"prlimit64": 261},
)
_CLONE3 = 435
_MACHINES = {"x86_64": _X86_64, "aarch64": _AARCH64}


def available() -> bool:
    """Whether this system has such filters for this processor."""
    return sys.platform == "linux" and platform.machine() in _MACHINES


def install() -> bool:
    """Put the filter on all threads of this process, for good. False where that is not possible."""
    if not available():
        return False
    program = _program(platform.machine(), os.getpid())
    code = ctypes.create_string_buffer(program, len(program))

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]

    given = Program(len(program) // 8, ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(38, 1, 0, 0, 0) != 0:  # PR_SET_NO_NEW_PRIVS
        return False
    number = _MACHINES[platform.machine()][1]
    installed: int = libc.syscall(
        ctypes.c_long(number), ctypes.c_long(1), ctypes.c_long(1), ctypes.byref(given)
    )
    return installed == 0  # SECCOMP_SET_MODE_FILTER with SECCOMP_FILTER_FLAG_TSYNC


def _program(machine: str, pid: int) -> bytes:
    """The filter in classic BPF. A jump counts the instructions that it skips."""
    architecture, _, clone, refused, own_only, reading_only = _MACHINES[machine]
    refuse = _one(_RETURN, _ERRNO | errno.EPERM)
    allow = _one(_RETURN, _ALLOW)
    number, first, third = _one(_LOAD, 0), _one(_LOAD, 16), _one(_LOAD, 32)
    program = _one(_LOAD, 4) + _one(_EQUAL, architecture, 1, 0) + refuse + number
    program += _one(_GREATER_EQUAL, _X32, 0, 1) + refuse
    for code in sorted(refused.values()):
        program += _one(_EQUAL, code, 0, 1) + refuse
    # Without clone3 the C library takes clone, whose flags a filter can read.
    program += _one(_EQUAL, _CLONE3, 0, 1) + _one(_RETURN, _ERRNO | errno.ENOSYS)
    program += _one(_EQUAL, clone, 0, 4) + first + _one(_SET, _CLONE_THREAD, 1, 0) + refuse + allow
    for code in own_only.values():
        program += _one(_EQUAL, code, 0, 4) + first + _one(_EQUAL, pid, 1, 0) + refuse + allow
    for code in reading_only.values():
        low, high = third, _one(_LOAD, 36)
        program += _one(_EQUAL, code, 0, 6) + low + _one(_EQUAL, 0, 1, 0) + refuse
        program += high + _one(_EQUAL, 0, 1, 0) + refuse
    return program + allow


def _one(code: int, value: int, when_true: int = 0, when_false: int = 0) -> bytes:
    return struct.pack("HBBI", code, when_true, when_false, value)
