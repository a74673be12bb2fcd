"""Runs one program and its tests with as few rights as the platform lets it give up; a program of its own.

It reads what to run from its input, gives up rights one after the other, runs it, and writes one line of JSON to its
output. It imports nothing of Leadline, and runs without packages (``-I -S``).
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import struct
import sys
from types import ModuleType
from typing import Any, Final

_NOBODY: Final = 65_534
_NEW_USER: Final = 0x10000000
_NEW_NETWORK: Final = 0x40000000
_NEW_IPC: Final = 0x08000000
_NO_NEW_PRIVILEGES: Final = 38
_CREATE_RULESET: Final = 444
_ADD_RULE: Final = 445
_RESTRICT_SELF: Final = 446
_READ: Final = 0b1101  # execute, read files, list folders
_ALL_OF_ABI: Final = {1: 0x1FFF, 2: 0x3FFF, 3: 0x7FFF, 4: 0x7FFF, 5: 0xFFFF}
"""Rights on files that each version of Landlock knows; later ones know those of the fifth."""

_SCOPES: Final = 0b11
"""Abstract sockets of others, and signals to them: refused since the sixth version."""

_TCP: Final = 0b11  # bind and connect
_BENEATH: Final = 1
_SET_SECCOMP: Final = 22
_FILTER: Final = 2
_SET_READABLE: Final = 4
_CAPABILITIES: Final = struct.pack("Ii", 0x20080522, 0)  # of this process, third version
_MAKE_DEVICES: Final = 0b100001000000
_LOAD, _EQUAL, _ANY_BIT, _AT_LEAST, _RETURN = 0x20, 0x15, 0x45, 0x35, 0x06
"""Instructions of the filter: load a word, jump where it equals, has a bit of, is at least; return."""

_ALLOW: Final = 0x7FFF0000
_NOT_ALLOWED: Final = 0x00050001  # EPERM
_NOT_THERE: Final = 0x00050026  # ENOSYS, at which the C library takes clone
_THREAD, _SAME_FILES = 0x10000, 0x400
_SHARED, _ANONYMOUS = 0x01, 0x20
_X32: Final = 0x40000000
_MACHINES: Final = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
"""By kind of processor: how Linux names it, and which numbers of calls are its own."""

_CLONE: Final = (56, 220)
_CLONE3: Final = 435
_REFUSED: Final = {
    # Others get no signal and no debugger, and nobody looks into their memory.
    "kill": (62, 129), "tkill": (200, 130), "tgkill": (234, 131), "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240), "pidfd_send_signal": (424, 424), "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438), "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "process_madvise": (440, 440), "process_mrelease": (448, 448), "kcmp": (312, 272), "perf_event_open": (298, 241),
    "userfaultfd": (323, 282), "timer_create": (222, 107),
    # Nor another priority, processor or place of its memory.
    "setpriority": (141, 140), "ioprio_set": (251, 30), "sched_setaffinity": (203, 122),
    "sched_setscheduler": (144, 119), "sched_setparam": (142, 118), "sched_setattr": (314, 274),
    "migrate_pages": (256, 238), "move_pages": (279, 239),
    # No further processes, no sockets, no memory and queues shared with others, no keys, no other way to their files.
    "fork": (57, None), "vfork": (58, None), "socket": (41, 198), "io_uring_setup": (425, 425), "bpf": (321, 280),
    "vmsplice": (278, 75),
    "unshare": (272, 97), "setns": (308, 268), "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    "shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195), "semget": (64, 190), "semop": (65, 193),
    "semctl": (66, 191), "semtimedop": (220, 192), "msgget": (68, 186), "msgsnd": (69, 189), "msgrcv": (70, 188),
    "msgctl": (71, 187), "mq_open": (240, 180), "mq_unlink": (241, 181), "open_by_handle_at": (304, 265),
    "fanotify_init": (300, 262), "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41),
    "chroot": (161, 51), "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430),
    "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442),
    # Landlock does not keep the owner, mode, times and attributes of others' files.
    "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452), "chown": (92, None),
    "fchown": (93, 55), "lchown": (94, None), "fchownat": (260, 54), "utime": (132, None), "utimes": (235, None),
    "futimesat": (261, None), "utimensat": (280, 88), "setxattr": (188, 5), "lsetxattr": (189, 6),
    "fsetxattr": (190, 7), "setxattrat": (463, 463), "removexattr": (197, 14), "lremovexattr": (198, 15),
    "fremovexattr": (199, 16), "removexattrat": (466, 466),
    # What root alone may.
    "reboot": (169, 142), "kexec_load": (246, 104), "kexec_file_load": (320, 294), "init_module": (175, 105),
    "finit_module": (313, 273), "delete_module": (176, 106), "swapon": (167, 224), "swapoff": (168, 225),
    "acct": (163, 89), "quotactl": (179, 60), "quotactl_fd": (443, 443), "syslog": (103, 116), "vhangup": (153, 58),
    "sethostname": (170, 161), "setdomainname": (171, 162), "settimeofday": (164, 170), "clock_settime": (227, 112),
    "adjtimex": (159, 171), "clock_adjtime": (305, 266), "iopl": (172, None), "ioperm": (173, None),
}  # fmt: skip
"""Calls that are refused, with their numbers on x86_64 and on aarch64."""

_REFUSED_COMMANDS: Final = (
    # fcntl: F_SETOWN, F_SETSIG and F_SETOWN_EX send the signals of a file to others, F_SETLEASE makes them wait for it
    ((72, 25), (8, 10, 15, 1024)),
    ((16, 29), (0x8901, 0x8902, 0x5412)),  # ioctl: FIOSETOWN and SIOCSPGRP do, too; TIOCSTI types into a terminal
)
_MMAP: Final = (9, 222)
_PRLIMIT: Final = (302, 261)
"""Limits of this process alone, which the number 0 stands for."""

MEGABYTE: Final = 2**20


def give_up_root() -> bool:
    """Become nobody where this is root and nobody may read Python's files; return whether this is no root then.

    Root has no limit of processes, so that only others cannot start further ones.
    """
    if os.geteuid() != 0:
        return True
    os.seteuid(_NOBODY)
    readable = os.access(os.__file__, os.R_OK, effective_ids=True)
    os.seteuid(0)
    if readable:
        os.chown(".", _NOBODY, _NOBODY)
        os.setgroups([])
        os.setresgid(_NOBODY, _NOBODY, _NOBODY)
        os.setresuid(_NOBODY, _NOBODY, _NOBODY)
    return readable


def give_up_network(libc: Any) -> bool:
    """Move into a network of one's own, in which there is nothing; return whether that worked."""
    if not sys.platform.startswith("linux"):
        return False
    return any(
        libc.unshare(flags) == 0
        for flags in (_NEW_USER | _NEW_NETWORK | _NEW_IPC, _NEW_NETWORK | _NEW_IPC, _NEW_NETWORK)
    )


def give_up_files(libc: Any) -> bool:
    """Keep only Python's own files to read and this folder to write, by Landlock; return whether that worked."""
    if not sys.platform.startswith("linux"):
        return False
    version = libc.syscall(_CREATE_RULESET, None, 0, 1)
    if version < 1 or libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0):
        return False
    rights = _ALL_OF_ABI[min(version, 5)]
    ruleset = struct.pack("QQQ", rights, _TCP, _SCOPES)[: 24 if version >= 6 else 16 if version >= 4 else 8]
    rules = libc.syscall(_CREATE_RULESET, ruleset, len(ruleset), 0)
    if rules < 0:
        return False
    readable = {
        sys.base_prefix,
        sys.prefix,
        "/lib",
        "/lib64",
        "/usr/lib",
        "/usr/lib64",
        "/usr/share/zoneinfo",
        "/dev/urandom",
    }
    for path, allowed in [*((path, _READ) for path in readable), (".", rights & ~_MAKE_DEVICES), ("/dev/null", 0b110)]:
        try:
            place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue
        kept = allowed & rights if os.path.isdir(path) else allowed & 0b111  # noqa: PTH112 - no imports beyond need
        libc.syscall(_ADD_RULE, rules, _BENEATH, struct.pack("=QI", kept, place), 0)
        os.close(place)
    done: bool = libc.syscall(_RESTRICT_SELF, rules, 0) == 0
    os.close(rules)
    return done


def give_up_calls(libc: Any) -> bool:
    """Refuse this process all that reaches other processes and sockets; return whether that worked.

    A filter of system calls (seccomp) does that also for root, in containers that allow no namespaces, and for sockets
    that are files, such as those of Docker and the desktop. Threads can be started.
    """
    if platform.machine() not in _MACHINES or not sys.platform.startswith("linux"):
        return False
    machine, column = _MACHINES[platform.machine()]
    lines: list[tuple[int, int, int, int]] = [
        (_LOAD, 0, 0, 4),
        (_EQUAL, 1, 0, machine),
        (_RETURN, 0, 0, _NOT_ALLOWED),
        (_LOAD, 0, 0, 0),
        (_AT_LEAST, 0, 1, _X32),
        (_RETURN, 0, 0, _NOT_ALLOWED),
        (_EQUAL, 0, 1, _CLONE3),
        (_RETURN, 0, 0, _NOT_THERE),
        (_EQUAL, 0, 5, _CLONE[column]),
        (_LOAD, 0, 0, 16),
        (_ANY_BIT, 0, 2, _THREAD),
        (_ANY_BIT, 0, 1, _SAME_FILES),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _NOT_ALLOWED),
        (_EQUAL, 0, 5, _MMAP[column]),  # memory that is shared with nobody stays when all but a page is given back
        (_LOAD, 0, 0, 40),
        (_ANY_BIT, 0, 2, _ANONYMOUS),
        (_ANY_BIT, 0, 1, _SHARED),
        (_RETURN, 0, 0, _NOT_ALLOWED),
        (_RETURN, 0, 0, _ALLOW),
        (_EQUAL, 0, 4, _PRLIMIT[column]),
        (_LOAD, 0, 0, 16),
        (_EQUAL, 0, 1, 0),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _NOT_ALLOWED),
    ]
    for numbers, commands in _REFUSED_COMMANDS:
        lines += [(_EQUAL, 0, 2 * len(commands) + 2, numbers[column]), (_LOAD, 0, 0, 24)]
        for command in commands:
            lines += [(_EQUAL, 0, 1, command), (_RETURN, 0, 0, _NOT_ALLOWED)]
        lines.append((_RETURN, 0, 0, _ALLOW))
    for call in (number for numbers in _REFUSED.values() if (number := numbers[column]) is not None):
        lines += [(_EQUAL, 0, 1, call), (_RETURN, 0, 0, _NOT_ALLOWED)]
    lines.append((_RETURN, 0, 0, _ALLOW))
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *line) for line in lines))
    program = struct.pack("@HP", len(lines), ctypes.addressof(code))
    if libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0):
        return False
    done: bool = libc.prctl(_SET_SECCOMP, _FILTER, ctypes.create_string_buffer(program), 0, 0) == 0
    return done


def give_up_capabilities(libc: Any) -> None:
    """Keep none of root's powers, where this is root still; let the parent look at what is mapped."""
    if sys.platform.startswith("linux"):
        libc.capset(_CAPABILITIES, bytes(24))
        libc.prctl(_SET_READABLE, 1, 0, 0, 0)


def limit(seconds: int, memory_mb: int, *, processes: bool) -> None:
    """Set limits: processor time, memory, sizes of files, open files, no further processes.

    Args:
        seconds: Processor time.
        memory_mb: Address space in megabytes.
        processes: Whether to limit processes too, which no thread can then be started beside.
    """
    import resource  # of Unix only

    for which, most in (
        (resource.RLIMIT_CPU, seconds),  # a signal at first, that says what it was, and a second later the end
        (resource.RLIMIT_AS, memory_mb * MEGABYTE),
        (resource.RLIMIT_FSIZE, MEGABYTE),
        (resource.RLIMIT_NOFILE, 32),
        *([(resource.RLIMIT_NPROC, 0)] if processes else []),
        (resource.RLIMIT_CORE, 0),
    ):
        try:
            resource.setrlimit(which, (most, most + 1 if which == resource.RLIMIT_CPU else most))
        except (OSError, ValueError):  # a platform may not know the limit, or have a lower one
            continue


def run(asked: dict[str, Any]) -> dict[str, Any]:
    """Run the program and then its tests in the same namespace, and return how it ended.

    Args:
        asked: ``program``, ``tests`` and ``entry_point``.
    """
    module = ModuleType("answer")
    sys.modules["answer"] = module  # where dataclasses, pickle and others look up what a class was defined with
    names = module.__dict__
    where = "answer"
    try:
        exec(compile(asked["program"], "answer", "exec", dont_inherit=True), names)  # noqa: S102 - its purpose
        where = "tests"
        exec(compile(asked["tests"], "tests", "exec", dont_inherit=True), names)  # noqa: S102
        if asked["entry_point"]:
            names["check"](names[asked["entry_point"]])
    except BaseException as error:
        return {"status": "failed", "where": where, "message": f"{type(error).__name__}: {error}"[:300]}
    return {"status": "passed", "where": "", "message": ""}


def fault_of(tests: str) -> str:
    """Return why tests are no Python, ``""`` if they are."""
    try:
        compile(tests, "tests", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return f"{type(error).__name__}: {error}"[:300]
    return ""


def main() -> None:
    """Give up rights, say which, run what the input asks for, and say how it ended.

    What is said first goes through a pipe that is closed before anything is run: no program can change it.
    """
    asked = json.loads(sys.stdin.buffer.read())
    first, output = int(sys.argv[1]), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    libc = ctypes.CDLL(None, use_errno=True)
    isolation = {"processes": give_up_root(), "network": give_up_network(libc)}
    isolation["files"] = give_up_files(libc)
    isolation["signals"] = give_up_calls(libc)
    if isolation["signals"]:
        isolation |= {"processes": True, "network": True}
    give_up_capabilities(libc)
    limit(asked["cpu_s"], asked["memory_mb"], processes=not isolation["signals"])
    left = [right for right, given_up in isolation.items() if not given_up and right not in asked["leave"]]
    fault = fault_of(asked["tests"])
    os.write(first, json.dumps({"isolation": isolation, "left": left, "fault": fault}).encode())
    os.close(first)
    if not left and not fault:
        os.write(output, json.dumps({**run(asked), "token": asked["token"]}).encode())
    os._exit(0)


if __name__ == "__main__":
    main()
