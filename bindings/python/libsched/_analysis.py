"""Proofs and simulations of schedules. Neither of them runs a schedule or needs a world."""

from __future__ import annotations

from typing import Any, NamedTuple, Sequence

from . import _core
from ._words import DTYPE_NAMES, REDUCTION_NAMES, REDUCTIONS, dtype_number, number_of


class Finding(NamedTuple):
    """A violation that verify() has found, or a warning of verify()."""

    property: str  #: the violated property: "form", "matching", "progress", "hazard", "contents",...
    rank: int | None
    peer: int | None
    op: int | None
    buffer: int | None
    begin: int  #: the finding concerns elements [begin, end) of the buffer
    end: int
    text: str


class Verification(NamedTuple):
    """The result of a proof. `bool(result)` is `holds`: True if the schedules are correct in every execution."""

    holds: bool
    findings: list[Finding]  #: violations
    notes: list[Finding]  #: warnings about schedules that are correct, but fragile
    counted: dict[str, Any]  #: ranks, messages, bytes, hops and the other members of lsched_verification

    def __bool__(self) -> bool:
        return self.holds


class Simulation(NamedTuple):
    """The times of one round on a modelled machine (docs/reference/simulate.md)."""

    seconds: float  #: time at which the last rank finishes
    finish: list[float]  #: time at which each rank finishes, in seconds
    counted: dict[str, int]  #: ranks, messages, bytes and the other members of lsched_simulation


_REQUIRED = {"op": 1, "dtype": 2, "count": 4, "root": 8}


def verify(text: str | None = None, *, collective: str | None = None, ranks: int = 0, algorithm: str | None = None,
           count: int | None = None, dtype: Any = None, op: str | None = None, activation: str | None = None,
           root: int | None = None, in_place: bool = False, eager_bytes: int = 0, slots: int = 0,
           most_findings: int = 16) -> Verification:
    """Proves the schedules of a whole world: schedules in a text, or schedules that the library would run.

    text        schedule files of all ranks, one after the other, as Schedule.text() returns them. The schedules are
                proved against `collective`, or else against the collective that their name contains. The schedules
                must also agree with each of `op`, `dtype`, `count` and `root` that is given
    collective  without `text`: proves the library's schedules of `ranks` ranks for `count` elements of `dtype`,
                combined by `op`

    If the text is not valid, raises ArgumentError with line and column.
    """
    required = {"op": op, "dtype": dtype, "count": count, "root": root}
    bits = 0 if text is None else sum(bit for name, bit in _REQUIRED.items() if required[name] is not None)
    counted, findings, notes = _core.verify(
        text, collective, in_place, ranks, algorithm, count or 0, 0 if dtype is None else dtype_number(dtype),
        0 if op is None else number_of(REDUCTIONS, op, "op"), activation, bits, root or 0, eager_bytes, slots,
        most_findings)
    counted["dtype"] = DTYPE_NAMES.get(counted["dtype"])
    counted["reduction"] = REDUCTION_NAMES.get(counted["reduction"])
    return Verification(counted.pop("holds"), [_finding(each) for each in findings], [_finding(each) for each in notes],
                        counted)


def _finding(told: dict[str, Any]) -> Finding:
    for member in ("rank", "peer"):
        told[member] = None if told[member] < 0 else told[member]
    for member in ("op", "buffer"):
        told[member] = None if told[member] == 2**32 - 1 else told[member]
    return Finding(**told)


def simulate(text: str | None = None, *, collective: str | None = None, ranks: int = 0, algorithm: str | None = None,
             count: int = 0, dtype: Any = None, op: str | None = None, root: int = 0, activation: str | None = None,
             initiator: int = 0, sparse: Any = None, round: int = 1, starts: Sequence[float] = (),
             L: float | None = None, o: float | None = None, g: float | None = None, G: float | None = None,
             O: float | None = None, compute: float | None = None, S: int | None = None) -> Simulation:
    """Simulates one round on a machine with the given LogGOPS parameters. Returns the times of the round.

    L, o and g are in nanoseconds. G, O and compute are in nanoseconds per byte. S is in bytes. A parameter that is not
    given has the default of `lsched simulate`.

    `starts[r]` is the time in seconds at which rank r begins. `sparse` is a dict of the options of
    World.sparse_allreduce for vectors of `count` elements. Raises Mismatch for a message without a receive, and
    StateError if a rank waits forever.
    """
    wanted = None
    if sparse is not None:
        from ._sparse import request_of

        wanted = request_of(**sparse)
        wanted.count = count
        wanted.dtype = dtype_number(dtype or "f32")
    machine = [-1.0 if each is None else float(each) for each in (L, o, g, G, O, compute)]
    counted, finish = _core.simulate(
        text, collective, algorithm, wanted, ranks, root, 0 if wanted else count,
        0 if dtype is None or wanted else dtype_number(dtype), 0 if op is None else number_of(REDUCTIONS, op, "op"),
        activation, initiator, round, [int(each * 1e9) for each in starts], machine, S)
    return Simulation(counted.pop("last_ps") * 1e-12, [each * 1e-12 for each in finish], counted)
