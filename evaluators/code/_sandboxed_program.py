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
_ALL_OF_ABI: Final = {1: 0x1FFF, 2: 0x3FFF, 3: 0x7FFF}
"""Rights on files that each version of Landlock knows; later ones know those of the third."""

_TCP: Final = 0b11  # bind and connect
_BENEATH: Final = 1
_SET_SECCOMP: Final = 22
_FILTER: Final = 2
_LOAD, _EQUAL, _ANY_BIT, _AT_LEAST, _RETURN = 0x20, 0x15, 0x45, 0x35, 0x06
"""Instructions of the filter: load a word, jump where it equals, has a bit of, is at least; return."""

_ALLOW: Final = 0x7FFF0000
_NOT_ALLOWED: Final = 0x00050001  # EPERM
_NOT_THERE: Final = 0x00050026  # ENOSYS, at which the C library takes clone
_THREAD: Final = 0x10000
_X32: Final = 0x40000000
_CALLS: Final = {
    "x86_64": (0xC000003E, 56, (41, 57, 58, 62, 101, 129, 165, 200, 234, 248, 249, 250, 272, 297, 298, 308, 310, 311,
                                321, 323)),
    "aarch64": (0xC00000B7, 220, (40, 97, 117, 129, 130, 131, 138, 198, 217, 218, 219, 240, 241, 268, 270, 271, 280,
                                  282)),
}  # fmt: skip
"""By kind of processor: how Linux names it, its number of clone, and those of the calls that are refused: socket, fork,
vfork, kill and its like, ptrace, process_vm_readv and _writev, mount, unshare, setns, keys, bpf, perf, userfaultfd."""

_CLONE3: Final = 435
_SINCE_5_1: Final = (424, 425, 434)
"""pidfd_send_signal, io_uring_setup and pidfd_open, which have one number everywhere."""

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
    rights = _ALL_OF_ABI[min(version, 3)]
    ruleset = struct.pack("QQ", rights, _TCP) if version >= 4 else struct.pack("Q", rights)
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
    for path, allowed in [*((path, _READ) for path in readable), (".", rights), ("/dev/null", 0b110)]:
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
    """Refuse this process to start others, to send them signals and to open sockets; return whether that worked.

    A filter of system calls (seccomp) does that also for root, in containers that allow no namespaces, and for sockets
    that are files, such as those of Docker and the desktop. Threads can be started.
    """
    known = _CALLS.get(platform.machine())
    if known is None or not sys.platform.startswith("linux"):
        return False
    machine, clone, refused = known
    lines: list[tuple[int, int, int, int]] = [
        (_LOAD, 0, 0, 4),
        (_EQUAL, 1, 0, machine),
        (_RETURN, 0, 0, _NOT_ALLOWED),
        (_LOAD, 0, 0, 0),
        (_AT_LEAST, 0, 1, _X32),
        (_RETURN, 0, 0, _NOT_ALLOWED),
        (_EQUAL, 0, 1, _CLONE3),
        (_RETURN, 0, 0, _NOT_THERE),
        (_EQUAL, 0, 4, clone),
        (_LOAD, 0, 0, 16),
        (_ANY_BIT, 0, 1, _THREAD),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _NOT_ALLOWED),
    ]
    for call in (*refused, *_SINCE_5_1):
        lines += [(_EQUAL, 0, 1, call), (_RETURN, 0, 0, _NOT_ALLOWED)]
    lines.append((_RETURN, 0, 0, _ALLOW))
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *line) for line in lines))
    program = struct.pack("@HP", len(lines), ctypes.addressof(code))
    if libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0):
        return False
    done: bool = libc.prctl(_SET_SECCOMP, _FILTER, ctypes.create_string_buffer(program), 0, 0) == 0
    return done


def limit(seconds: int, memory_mb: int, *, processes: bool) -> None:
    """Set limits: processor time, memory, sizes of files, open files, no further processes.

    Args:
        seconds: Processor time.
        memory_mb: Address space in megabytes.
        processes: Whether to limit processes too, which no thread can then be started beside.
    """
    import resource  # of Unix alone

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
    except SyntaxError as error:
        return {"status": "syntax", "where": where, "message": f"SyntaxError: {error}"[:300]}
    except BaseException as error:
        return {"status": "failed", "where": where, "message": f"{type(error).__name__}: {error}"[:300]}
    return {"status": "passed", "where": "", "message": ""}


def main() -> None:
    """Give up rights, run what the input asks for, and say how it ended."""
    asked = json.loads(sys.stdin.buffer.read())
    output = os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    libc = ctypes.CDLL(None, use_errno=True)
    isolation = {"processes": give_up_root(), "network": give_up_network(libc)}
    isolation["files"] = give_up_files(libc)
    isolation["signals"] = give_up_calls(libc)
    if isolation["signals"]:
        isolation |= {"processes": True, "network": True}
    limit(asked["cpu_s"], asked["memory_mb"], processes=not isolation["signals"])
    if isolation["network"] or asked["allow_network"]:
        ended = run(asked)
    else:
        ended = {"status": "refused", "where": "", "message": "the network cannot be taken away on this machine"}
    os.write(output, json.dumps({**ended, "isolation": isolation, "token": asked["token"]}).encode())
    os._exit(0)


if __name__ == "__main__":
    main()
