"""Runs one Python program from standard input that nobody trusts. A script of its own: imports nothing of anyorder.

    python -I -B jail.py SECONDS BYTES TOKEN < program

It writes TOKEN to standard output if the program came to its end, and nothing else ever.

The program may compute and read. Limits of the system bound its time, memory, files and output, and a filter of system
calls (seccomp) refuses it sockets, new processes, and every change of the file system, whatever user runs it. What it
may still read is not hidden from it, and cannot leave.
"""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import struct
import sys

# name: (x86_64, aarch64); -1 where a machine has no such call. Source: the kernel's tables of system calls.
REFUSED = {
    "socket": (41, 198), "socketpair": (53, 199), "connect": (42, 203), "bind": (49, 200), "sendto": (44, 206),
    "sendmsg": (46, 211), "sendmmsg": (307, 269), "io_uring_setup": (425, 425), "fork": (57, -1), "vfork": (58, -1),
    "execve": (59, 221), "execveat": (322, 281), "ptrace": (101, 117), "process_vm_writev": (311, 271),
    "kill": (62, 129), "tkill": (200, 130), "tgkill": (234, 131), "pidfd_send_signal": (424, 424), "creat": (85, -1),
    "openat2": (437, 437), "unlink": (87, -1), "unlinkat": (263, 35), "rename": (82, -1), "renameat": (264, 38),
    "renameat2": (316, 276), "rmdir": (84, -1), "mkdir": (83, -1), "mkdirat": (258, 34), "mknod": (133, -1),
    "mknodat": (259, 33), "link": (86, -1), "linkat": (265, 37), "symlink": (88, -1), "symlinkat": (266, 36),
    "chmod": (90, -1), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452), "chown": (92, -1),
    "fchown": (93, 55), "lchown": (94, -1), "fchownat": (260, 54), "truncate": (76, 45), "utimensat": (280, 88),
    "utime": (132, -1), "utimes": (235, -1), "futimesat": (261, -1), "setxattr": (188, 5), "lsetxattr": (189, 6),
    "fsetxattr": (190, 7), "removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16),
    "mount": (165, 40), "umount2": (166, 39), "move_mount": (429, 429), "setns": (308, 268), "unshare": (272, 97),
    "chroot": (161, 51), "bpf": (321, 280), "keyctl": (250, 219), "add_key": (248, 217), "shmget": (29, 194),
    "mq_open": (240, 180), "prlimit64": (302, 261), "setrlimit": (160, 164), "reboot": (169, 142),
    "init_module": (175, 105), "finit_module": (313, 273), "memfd_create": (319, 279),
}  # fmt: skip
OPENING = {"open": (2, -1, 1), "openat": (257, 56, 2)}
"""Refused where their flags, the argument of this index, ask for more than reading."""
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND | 0o20000000  # the last: a nameless file
CLONE, CLONE3, THREAD = (56, 220), (435, 435), 0x10000
MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
"""Machine -> column of the tables, and what the kernel calls it (AUDIT_ARCH)."""
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _REFUSE, _UNKNOWN, _KILL = 0x7FFF0000, 0x00050001, 0x00050026, 0x80000000  # EPERM, ENOSYS
_X32 = 0x40000000


def instructions(machine: str) -> bytes:
    """The filter as a program of the Berkeley packet filter."""
    column, arch = MACHINES[machine]

    def op(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
        return struct.pack("HBBI", code, yes, no, value)

    def refuse(number: int, verdict: int = _REFUSE) -> bytes:
        return op(_EQUAL, number, 0, 1) + op(_RETURN, verdict)

    def flagged(number: int, argument: int, bits: int, *, wanted: bool) -> bytes:
        """Refuse a call whose argument has any of the bits, or with `wanted`, none."""
        verdicts = (_ALLOW, _REFUSE) if wanted else (_REFUSE, _ALLOW)
        return b"".join(
            (
                op(_EQUAL, number, 0, 4),
                op(_LOAD, 16 + 8 * argument),
                op(_ANY_BIT, bits, 0, 1),
                op(_RETURN, verdicts[0]),
                op(_RETURN, verdicts[1]),
            )
        )

    parts = [op(_LOAD, 4), op(_EQUAL, arch, 1, 0), op(_RETURN, _KILL), op(_LOAD, 0)]
    parts += [op(_AT_LEAST, _X32, 0, 1), op(_RETURN, _KILL)] if machine == "x86_64" else []
    parts += [refuse(numbers[column]) for numbers in REFUSED.values() if numbers[column] >= 0]
    parts += [refuse(CLONE3[column], _UNKNOWN)]  # the C library then uses clone, whose flags can be seen
    parts += [flagged(CLONE[column], 0, THREAD, wanted=True)]
    parts += [flagged(row[column], row[2], WRITING, wanted=False) for row in OPENING.values() if row[column] >= 0]
    return b"".join([*parts, op(_RETURN, _ALLOW)])


def lock(machine: str) -> None:
    """Apply the filter to this process, for good.

    Raises:
        OSError: the kernel has no such filters.
    """
    code = instructions(machine)
    buffer = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    for arguments in ((38, 1, 0, 0, 0), (22, 2, ctypes.c_char_p(program), 0, 0)):  # no new privileges; the filter
        if libc.prctl(*arguments) != 0:
            raise OSError(ctypes.get_errno(), "the filter of system calls was refused")


def limit(seconds: int, size: int) -> None:
    """Time of the processor, memory, files and output."""
    bounds = {"RLIMIT_CPU": seconds, "RLIMIT_AS": size, "RLIMIT_FSIZE": 1 << 20, "RLIMIT_NOFILE": 64, "RLIMIT_CORE": 0}
    for name, value in bounds.items():
        resource.setrlimit(getattr(resource, name), (value, value))


def main() -> None:
    """Read, lock, run, tell."""
    seconds, size, token = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    program = sys.stdin.read()
    told = os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    sys.argv[:] = ["answer"]
    limit(seconds, size)
    lock(platform.machine())
    exec(compile(program, "answer", "exec"), {"__name__": "__main__"})
    os.write(told, token.encode())


if __name__ == "__main__":
    main()
