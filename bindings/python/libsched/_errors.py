"""Exceptions. A status of the C interface has its own class if programs may need to handle this status separately."""

from __future__ import annotations


class Error(RuntimeError):
    """A failed call of the library.

    Attributes:
        status: the name of the status in lsched.h, for example "LSCHED_ERR_PEER".
        rank: the rank that is at fault or missing; None if it is not known.
        op: the id of the op in the schedule; None if the error concerns no op.
        round: the round number; None if the error concerns no round.
        text: the message, one sentence.
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
    """An argument is missing, out of range or meaningless. No state has changed."""


class BoundsError(Error, IndexError):
    """A region exceeds its buffer, or received data does not fit its array."""


class StateError(Error):
    """The state of the object does not allow the call, for example because the object is closed."""


class Mismatch(Error):
    """Ranks have made different requests, or requests in different orders."""


class Unsupported(Error, NotImplementedError):
    """This build, or the transport between the ranks, does not support the request."""


class NoMemory(Error, MemoryError):
    """Memory for the request could not be allocated."""


class PeerLost(Error, ConnectionError):
    """A rank has died or has closed the world. `rank` is that rank."""


class Timeout(Error, TimeoutError):
    """The timeout has passed. `text` and `rank` name the awaited rank. The round is still outstanding."""


class Busy(Error):
    """The object is still in use."""


class NotFinite(Error, ArithmeticError):
    """A sparse round has a result with NaN or infinities, and its schedule was created with nans="error"."""


class Cancelled(Error):
    """A rank has cancelled the schedule. `rank` is that rank."""


class DeviceError(Error):
    """A GPU or its driver has failed."""


# Name and exception class of each lsched_status.
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
    """Returns the number of a status, given its name in lsched.h.

    An unknown name has the number of LSCHED_ERR_INTERNAL.
    """
    return next((code for code, (status, _) in _STATUSES.items() if status == name), -15)



def error_of(code: int, rank: int, op: int, round: int, text: str) -> Error:
    """Returns the exception for a diagnostic of the C interface."""
    status, kind = _STATUSES.get(code, (f"lsched_status {code}", Error))
    return kind(text, status, None if rank < 0 else rank, None if op == _NO_OP else op, round or None)
