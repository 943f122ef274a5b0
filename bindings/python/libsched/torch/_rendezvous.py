"""The rendezvous of processes that will form a world: each process has a door, and the handles name the doors.

    rank r                        door of rank 0                 rank 0
    connect, hello ─────────────► backlog ─────────────────────► accept, until all ranks are there
    bytes of r ────────────────────────────────────────────────► gather
    bytes of all ranks, or the reason of a failure ◄──────────── reply         (the last two steps for each exchange)

A connection stays open until the world is open, so each side notices at once that the other has ended. While ranks are
missing, rank 0 tries to connect to their doors, because a process that has ended has no door.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import secrets
import select
import socket
import struct
import time
from typing import Any, Sequence

from .._errors import ArgumentError, Error, Mismatch, PeerLost, StateError, Timeout

_TURN = 0.25  # seconds until the first check for members that are gone; the pauses grow to _LONGEST_TURN
_LONGEST_TURN = 1.0
_CONNECT = 2.0  # seconds after which an address, or a connection without hello, is not usable
_GRACE = 1.0  # seconds beyond the timeout that a rank waits for the reason of rank 0
_LOOPBACK = "127.0.0.1"
_LONGEST = 1 << 28  # bytes of a frame
_BACKLOG = 4096  # connections that wait for accept


@dataclasses.dataclass(frozen=True)
class Handle:
    """A member of the next world.

    token      a random name of the door
    age        number of worlds that the process has entered through this door
    rank       rank of the process in the present world
    network    name of the network namespace; in the same namespace, a Unix socket with the token as name leads to the
               door
    port       port of the door for processes in other network namespaces
    addresses  addresses of the door for processes in other network namespaces
    """

    token: str
    age: int
    rank: int
    network: str
    port: int
    addresses: tuple[str, ...]

    def __str__(self) -> str:
        return "/".join(("lsched", self.token, str(self.age), str(self.rank), self.network, str(self.port),
                         ",".join(self.addresses)))

    @classmethod
    def parsed(cls, text: str) -> Handle:
        try:
            name, token, age, rank, network, port, addresses = text.split("/")
            if name != "lsched":
                raise ValueError
            return cls(token, int(age), int(rank), network, int(port), tuple(addresses.split(",")))
        except ValueError:
            raise ArgumentError(f"{text!r} is not a handle of the backend lsched: pass strings that "
                                "get_reconfigure_handle() has returned on the members", "LSCHED_ERR_ARGUMENT")

    def connect(self) -> socket.socket:
        """Connects to the door by the first address that works. Raises OSError if all addresses fail."""
        if self.network == _network():  # the name cannot belong to a later process, as the port could
            connection = socket.socket(socket.AF_UNIX)
            try:
                connection.settimeout(_CONNECT)
                connection.connect(_local_name(self.token))
            except OSError:
                connection.close()
                raise
            return connection
        error: OSError = ConnectionRefusedError()
        for each in self.addresses:
            try:
                connection = socket.create_connection((each, self.port), _CONNECT)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return connection
            except OSError as found:
                error = found
        raise error

    def is_gone(self) -> bool:
        """Returns true if the process has ended. Returns false if that cannot be known."""
        try:
            self.connect().close()
        except ConnectionRefusedError:
            return True
        except OSError:
            pass
        return False


def in_order(handles: Any) -> list[Handle]:
    """Returns the handles of the members in the order of their ranks.

    A set has no order. In a set, the members that have entered most worlds come first, so that rank 0 is no newcomer.
    """
    members = [Handle.parsed(each) for each in handles]
    if isinstance(handles, (set, frozenset)):
        members.sort(key=lambda each: (-each.age, each.rank, each.token))
    return members


class Door:
    """The listening sockets of a process. Only rank 0 of the next world accepts connections."""

    def __init__(self) -> None:
        self.token = secrets.token_hex(8)
        self.age = 0
        local = socket.socket(socket.AF_UNIX)
        local.bind(_local_name(self.token))
        local.listen(_BACKLOG)
        self._sockets = [local, socket.create_server(("", 0), backlog=_BACKLOG)]
        for each in self._sockets:
            each.setblocking(False)
        self._early: list[tuple[socket.socket, dict[str, Any]]] = []  # connections for other attempts

    def handle(self, rank: int) -> str:
        port = self._sockets[1].getsockname()[1]
        return str(Handle(self.token, self.age, rank, _network(), port, _addresses()))

    def place_in(self, members: Sequence[Handle]) -> int:
        """Returns the rank of this process. Raises ArgumentError if it is missing, or two members are equal."""
        tokens = [each.token for each in members]
        if self.token not in tokens:
            raise ArgumentError("the handles do not contain the handle of this rank: pass the handles that "
                                "get_reconfigure_handle() has returned on all members", "LSCHED_ERR_ARGUMENT")
        if len(set(tokens)) != len(tokens):
            raise ArgumentError("two of the handles belong to the same process: pass one handle for each member",
                                "LSCHED_ERR_ARGUMENT")
        return tokens.index(self.token)

    def close(self) -> None:
        for each in self._sockets:
            each.close()
        for connection, _ in self._early:
            connection.close()

    def arrivals(self, uuid: int, turn: float) -> list[tuple[socket.socket, dict[str, Any]]]:
        """Returns the connections for attempt `uuid` that have arrived. Waits at most `turn` seconds for the first."""
        found, self._early = self._early, []
        if not any(hello["uuid"] == uuid for _, hello in found):
            select.select(self._sockets, [], [], turn)
        for each in self._sockets:
            while (connection := _accepted(each)) is not None:
                try:
                    connection.settimeout(_CONNECT)
                    hello = json.loads(_receive(connection))
                    if hello["door"] == self.token:
                        found.append((connection, hello))
                        continue
                except (OSError, EOFError, ValueError, KeyError, TypeError):
                    pass  # a check whether this process is alive, or a stranger
                connection.close()
        now = [each for each in found if each[1]["uuid"] == uuid and not _has_ended(each[0])]
        self._early = [each for each in found if each[1]["uuid"] != uuid and not _has_ended(each[0])]
        return now


class Exchange:
    """Exchanges bytes between the members, by way of rank 0. A member that is gone ends all waits.

    `limit` is the timeout in seconds for the rendezvous and all exchanges.
    """

    def __init__(self, door: Door, uuid: int, rank: int, members: list[Handle], limit: float) -> None:
        self._rank = rank
        self._members = members
        self._until = time.monotonic() + limit
        self._connections: dict[int, socket.socket] = {}
        names = hashlib.sha256(" ".join(each.token for each in members).encode()).hexdigest()
        try:
            if rank == 0:
                self._await_all(door, uuid, names)
            else:
                connection = self._connections[0] = members[0].connect()
                _send(connection, json.dumps({"door": members[0].token, "uuid": uuid, "token": door.token,
                                              "names": names}).encode())
                door.arrivals(uuid, 0.0)  # drops the connections of ranks that have checked whether this process runs
        except BaseException as error:
            self.close(error)
            if isinstance(error, OSError) and not isinstance(error, Error):
                raise _lost(0) from error
            raise

    def left(self) -> float:
        """Returns the seconds until the timeout."""
        return max(0.001, self._until - time.monotonic())

    def __call__(self, mine: bytes) -> list[bytes]:
        if self._rank != 0:
            return self._reply_to(mine)
        values = [mine]
        for rank in range(1, len(self._members)):
            try:
                self._connections[rank].settimeout(self.left())
                values.append(_receive(self._connections[rank]))
            except TimeoutError:
                raise _late(rank)
            except (OSError, EOFError) as error:
                raise _lost(rank) from error
        for rank in range(1, len(self._members)):
            _reply(self._connections[rank], {"values": [each.hex() for each in values]})
        return values

    def close(self, error: BaseException | None = None) -> None:
        """Ends all connections. On rank 0, sends the reason to all ranks that wait, if there is an error."""
        if error is not None and self._rank == 0:
            for connection in self._connections.values():
                _reply(connection, error)
            until = time.monotonic() + _GRACE
            for connection in self._connections.values():
                _await_end(connection, until)
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    # --- rank 0 --------------------------------------------------------------------------------------------------

    def _await_all(self, door: Door, uuid: int, names: str) -> None:
        """Accepts all members. After an error, first waits for the other members, so that they get the reason."""
        ranks = {each.token: rank for rank, each in enumerate(self._members)}
        missing = set(range(1, len(self._members)))
        error: Error | None = None
        pause = _TURN
        look = time.monotonic() + pause
        while missing:
            for connection, hello in door.arrivals(uuid, min(pause, self.left())):
                rank = ranks.get(hello["token"], 0)
                different = Mismatch("rank 0 and another rank have passed different handles to reconfigure() with "
                                     f"uuid {uuid}: pass the same handles in the same order", "LSCHED_ERR_MISMATCH")
                if rank == 0:
                    _reply(connection, different)
                    connection.close()
                    continue
                self._connections[rank] = connection
                missing.discard(rank)
                if hello["names"] != names:
                    error = error or different
            now = time.monotonic()
            if now > self._until and missing:
                raise error or _late(min(missing))
            if now > look:
                gone = {rank for rank in missing if time.monotonic() < self._until and self._members[rank].is_gone()}
                missing -= gone
                gone |= {rank for rank, each in self._connections.items() if _has_ended(each)}
                if gone:
                    error = error or _lost(min(gone))
                pause = min(2 * pause, _LONGEST_TURN)
                look = time.monotonic() + pause
        if error is not None:
            raise error

    # --- other ranks ---------------------------------------------------------------------------------------------

    def _reply_to(self, mine: bytes) -> list[bytes]:
        connection = self._connections[0]
        try:
            connection.settimeout(self.left() + _GRACE)
            _send(connection, mine)
            reply = json.loads(_receive(connection))
        except TimeoutError:
            raise _late(0)
        except (OSError, EOFError) as error:
            raise _lost(0) from error
        if "why" in reply:
            name, text, status, rank = reply["why"]
            kinds = {each.__name__: each for each in (Mismatch, PeerLost, StateError, Timeout)}
            raise kinds.get(name, StateError)(text, status, rank)
        return [bytes.fromhex(each) for each in reply["values"]]


def _local_name(token: str) -> str:
    return f"\0lsched/{token}"  # the null byte means that the name is no file, and ends with the process


def _network() -> str:
    """Returns a name of the network namespace of this process."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return f"{file.read().strip()}.{os.stat('/proc/self/ns/net').st_ino}"
    except OSError:
        return socket.gethostname()


def _addresses() -> tuple[str, ...]:
    """Returns addresses of this host: first the address from which MASTER_ADDR is reached, then those of the name."""
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        try:
            one.connect((os.environ.get("MASTER_ADDR", "192.0.2.1"), 9))  # sends nothing
            found.append(one.getsockname()[0])
        except OSError:
            pass
    try:
        found += socket.gethostbyname_ex(socket.gethostname())[2]
    except OSError:
        pass
    return tuple(dict.fromkeys(each for each in found if not each.startswith("127."))) or (_LOOPBACK,)


def _reply(connection: socket.socket, reply: dict[str, Any] | BaseException) -> None:
    """Sends a result or an error to a rank. If the rank is gone, the next receive from it raises an error."""
    if isinstance(reply, BaseException):
        why = reply if isinstance(reply, Error) else StateError(f"rank 0 has given up reconfigure(): {reply!r}",
                                                                "LSCHED_ERR_STATE", 0)
        reply = {"why": [type(why).__name__, why.text, why.status, why.rank]}
    try:
        connection.settimeout(_CONNECT)
        _send(connection, json.dumps(reply).encode())
    except OSError:
        pass


def _send(connection: socket.socket, payload: bytes) -> None:
    connection.sendall(struct.pack("<I", len(payload)) + payload)


def _receive(connection: socket.socket) -> bytes:
    """Returns the next frame. Raises EOFError at the end of the connection."""
    (length,) = struct.unpack("<I", _receive_exactly(connection, 4))
    if length > _LONGEST:
        raise EOFError
    return _receive_exactly(connection, length)


def _receive_exactly(connection: socket.socket, length: int) -> bytes:
    parts = bytearray()
    while len(parts) < length:
        part = connection.recv(length - len(parts))
        if not part:
            raise EOFError
        parts += part
    return bytes(parts)


def _accepted(listener: socket.socket) -> socket.socket | None:
    try:
        connection, _ = listener.accept()
    except OSError:
        return None
    if connection.family != socket.AF_UNIX:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def _await_end(connection: socket.socket, until: float) -> None:
    """Reads until the other side has closed the connection, because a close before that could drop the last frame."""
    try:
        while True:
            connection.settimeout(max(0.001, until - time.monotonic()))
            if not connection.recv(4096):
                return
    except OSError:
        pass


def _has_ended(connection: socket.socket) -> bool:
    """Returns true if the other side has closed the connection, even if it has sent bytes before."""
    ended = select.POLLRDHUP | select.POLLHUP | select.POLLERR
    events = select.poll()
    events.register(connection, ended)
    return any(each & ended for _, each in events.poll(0))


def _lost(rank: int) -> PeerLost:
    return PeerLost(f"rank {rank} of reconfigure() has ended, or has left the call after an error: call reconfigure() "
                    f"again, with a fresh uuid, and without handle {rank} if its process has ended", "LSCHED_ERR_PEER",
                    rank)


def _late(rank: int) -> Timeout:
    return Timeout(f"rank {rank} did not reach reconfigure() in time: call reconfigure() on all members, or pass a "
                   "longer timeout", "LSCHED_ERR_TIMEOUT", rank)
