"""Exceptions: one class for each status of the C interface that a program may want to tell from the others."""

from __future__ import annotations


class Error(RuntimeError):
    """A call of the library has failed.

    Attributes:
        status: the name of the status in lsched.h, "LSCHED_ERR_PEER".
        rank: the rank that is to blame or is waited for; None where nobody is known.
        op: the number of the op of the schedule; None: none.
        round: the number of the round; None: none.
        text: one sentence.
    """

    def __init__(self, text: str, status: str = "LSCHED_ERR_INTERNAL", rank: int | None = None,
                 op: int | None = None, round: int | None = None) -> None:
        super().__init__(f"{text} [{status}]")
        self.text = text
        self.status = status
        self.rank = rank
        self.op = op
        self.round = round

    def __reduce__(self):
        return type(self), (self.text, self.status, self.rank, self.op, self.round)


class ArgumentError(Error, ValueError):
    """An argument is missing, out of range or meaningless; nothing has changed."""


class BoundsError(Error, IndexError):
    """A region leaves its buffer, or what has come does not fit."""


class StateError(Error):
    """The call does not fit the object's present state; it was closed, for one."""


class Mismatch(Error):
    """Ranks have asked for different things, or in a different order."""


class Unsupported(Error, NotImplementedError):
    """Not offered by this build or by this way between ranks."""


class NoMemory(Error, MemoryError):
    """There is no memory for it."""


class PeerLost(Error, ConnectionError):
    """A rank has died, or has closed the world. `rank` says which."""


class Timeout(Error, TimeoutError):
    """The time was over. `text` and `rank` say what is waited for; the round is still outstanding."""


class Busy(Error):
    """Something still uses the object."""


class NotFinite(Error, ArithmeticError):
    """The result of a sparse round was refused: nans="error"."""


class Cancelled(Error):
    """A rank has given the schedule up. `rank` says which."""


class DeviceError(Error):
    """A GPU or its driver has failed."""


# By the numbers of lsched_status.
_STATUSES: dict[int, tuple[str, type[Error]]] = {
    -1: ("LSCHED_ERR_ARGUMENT", ArgumentError),
    -2: ("LSCHED_ERR_BOUNDS", BoundsError),
    -3: ("LSCHED_ERR_STATE", StateError),
    -4: ("LSCHED_ERR_CYCLE", ArgumentError),
    -5: ("LSCHED_ERR_UNMATCHED", Mismatch),
    -6: ("LSCHED_ERR_MISMATCH", Mismatch),
    -7: ("LSCHED_ERR_CONSTRAINT", ArgumentError),
    -8: ("LSCHED_ERR_UNSUPPORTED", Unsupported),
    -9: ("LSCHED_ERR_NOMEM", NoMemory),
    -10: ("LSCHED_ERR_TRANSPORT", Error),
    -11: ("LSCHED_ERR_PEER", PeerLost),
    -12: ("LSCHED_ERR_TIMEOUT", Timeout),
    -13: ("LSCHED_ERR_BUSY", Busy),
    -14: ("LSCHED_ERR_VERSION", Error),
    -15: ("LSCHED_ERR_INTERNAL", Error),
    -16: ("LSCHED_ERR_NOT_FINITE", NotFinite),
    -17: ("LSCHED_ERR_CANCELLED", Cancelled),
    -18: ("LSCHED_ERR_DEVICE", DeviceError),
}

_NO_OP = 2**32 - 1


def status_number(name: str) -> int:
    """The number of a status in lsched.h."""
    return next((code for code, (status, _) in _STATUSES.items() if status == name), -15)



def error_of(code: int, rank: int, op: int, round: int, text: str) -> Error:
    """The exception for a diagnostic of the C interface."""
    status, kind = _STATUSES.get(code, (f"lsched_status {code}", Error))
    return kind(text, status, None if rank < 0 else rank, None if op == _NO_OP else op, round or None)
