"""The filter of system calls answers every number as its lists say: its code is run here as the kernel runs it."""

from __future__ import annotations

import errno
from struct import pack, unpack_from

import pytest

from rlx.tool.contain import syscalls
from rlx.tool.contain.syscalls import ALLOW, ALLOWED, ARCHITECTURES, CHECKED, ERROR, FORBIDDEN, KILL, PID, numbers
from tests.errors import raises_naming

REFUSED, ABSENT = ERROR | errno.EPERM, ERROR | errno.ENOSYS
PROCESS, OTHER = PID, 77
"""The process's own number, which is filled in as the filter is installed, and another one."""
BY_ARGUMENTS = {
    "clone": [((0x10900,), ALLOW), ((17,), REFUSED), ((0x4000,), REFUSED)],
    "clone3": [((0,), ABSENT)],
    "kill": [((PROCESS, 9), ALLOW), ((OTHER, 9), REFUSED), ((0, 9), REFUSED), ((2**32 - 1, 9), REFUSED)],
    "tgkill": [((PROCESS, 5, 9), ALLOW), ((OTHER, 5, 9), REFUSED)],
    "prlimit64": [((0, 1), ALLOW), ((PROCESS, 1), ALLOW), ((OTHER, 1), REFUSED)],
    "ioctl": [((1, 0x5401), ALLOW), ((1, 0x5412), ERROR | errno.ENOTTY), ((1, 0x5452), ERROR | errno.ENOTTY)],
    "fcntl": [((1, 8), REFUSED), ((1, 1024), REFUSED), ((1, 1), ALLOW), ((1, 1030), ALLOW)],
    "prctl": [((15,), ALLOW), ((16,), ALLOW), ((22,), REFUSED), ((4,), REFUSED)],
    "socketpair": [((1, 1), ALLOW), ((2, 1), REFUSED)],
}


def decide(machine: str, number: int, arguments: tuple[int, ...] = (), architecture: int | None = None) -> int:
    """Run the filter on one call, as `struct seccomp_data` describes it."""
    architecture = ARCHITECTURES[machine] if architecture is None else architecture
    data = pack("<iIQ6Q", number, architecture, 0, *(*arguments, 0, 0, 0, 0, 0, 0)[:6])
    code, place, value = syscalls.make_filter(machine), 0, 0
    while True:
        operation, yes, no, constant = code[place]
        place += 1
        if operation == syscalls.RETURN:
            return constant
        if operation == syscalls.LOAD:
            (value,) = unpack_from("<I", data, constant)
        else:
            holds = {
                syscalls.EQUAL: value == constant,
                syscalls.AT_LEAST: value >= constant,
                syscalls.HAS: bool(value & constant),
            }[operation]
            place += yes if holds else no


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_every_call_is_answered_as_listed(machine: str) -> None:
    allowed, forbidden = (set(numbers(table[machine]).values()) for table in (ALLOWED, FORBIDDEN))
    checked = set(numbers(CHECKED[machine]).values())
    assert len(allowed | forbidden | checked) == len(allowed) + len(forbidden) + len(checked)
    for number in {*range(1024), 2**30, 2**30 + 1, 2**31 - 1, -1} - checked:
        wanted = ALLOW if number in allowed else REFUSED if number in forbidden else ABSENT
        assert decide(machine, number) == wanted, number


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_arguments_decide_the_checked_calls(machine: str) -> None:
    assert set(numbers(CHECKED[machine])) == set(BY_ARGUMENTS)
    for name, number in numbers(CHECKED[machine]).items():
        for arguments, wanted in BY_ARGUMENTS[name]:
            assert decide(machine, number, arguments) == wanted, (name, arguments)


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_calls_of_another_architecture_are_killed(machine: str) -> None:
    assert decide(machine, 0, architecture=0x40000003) == KILL


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_the_kernel_accepts_the_length_of_the_jumps(machine: str) -> None:
    code = syscalls.make_filter(machine)
    assert len(code) <= 4096
    assert all(
        max(yes, no) < 256 and index + max(yes, no) + 1 <= len(code) for index, (_, yes, no, _) in enumerate(code)
    )


def test_an_unknown_machine_has_no_filter() -> None:
    with raises_naming(OSError, "riscv64"):
        syscalls.make_filter("riscv64")
