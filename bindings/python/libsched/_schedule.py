"""Schedules, and rounds of them."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Iterable

from . import _core
from ._errors import Error
from ._memory import Memory, look, look_all, numbers

if TYPE_CHECKING:
    from ._world import World

Ticket = _core.Ticket


def _awaited(ticket: Ticket):
    """Waits in a thread of the event loop's, which goes on where the await is cancelled."""
    import asyncio  # half of the time that importing libsched would take

    return asyncio.get_running_loop().run_in_executor(None, ticket.wait).__await__()


Ticket.__await__ = _awaited  # type: ignore[attr-defined]


class Schedule(_core.Schedule):
    """A persistent collective: created once, run any number of times.

    Made by the methods of World, collectively; `with` closes it. Its arrays may be looked at and changed between
    rounds, and belong to it while a round runs. start(), run() and cancel() are documented at their base class.
    """

    def __init__(self, world: World, handle: int, keeps: Iterable[Any] = ()) -> None:
        super().__init__(handle)
        self.world = world
        self._keeps = tuple(keeps)
        world._parts.add(self)

    # --- memory of rounds ----------------------------------------------------------------------------------------

    def rebind(self, input: Any = None, output: Any = None, *, inputs: Iterable[Any] | None = None,
               outputs: Iterable[Any] | None = None, dtype: Any = None) -> None:
        """The same collective over other arrays, of the same sizes, from the next round on.

        In place: one array, as `output`. `inputs` and `outputs`: of schedules with several of them. Does not block.
        Raises StateError while a round runs, ArgumentError where one array is given for two or two for one.
        """
        sources, targets = self._memories(input, output, inputs, outputs, dtype)
        self._rebind([each.address for each in sources], [each.address for each in targets])
        self._keeps = tuple(each.keeps for each in (*sources, *targets))

    def _memories(self, input: Any, output: Any, inputs: Any, outputs: Any,
                  dtype: Any) -> tuple[list[Memory], list[Memory]]:
        if inputs is None:
            inputs = [] if input is None and output is None else [output if input is None else input]
        if outputs is None:
            outputs = [] if output is None else [output]
        return (look_all(inputs, False, dtype, "input"), look_all(outputs, True, dtype, "output"))

    def start_with(self, input: Any = None, output: Any = None, *, send_counts: Any = None, recv_counts: Any = None,
                   send_displacements: Any = None, recv_displacements: Any = None, received: Any = None,
                   dtype: Any = None) -> Ticket:
        """Start the next round over arrays of its own: of schedules with a `capacity` or a `depth`.

        Counts and displacements are elements, one for each block; lists, or arrays of 64-bit numbers, which belong to
        the round until it has ended. `received`: such an array, to which the elements of each block are written.
        """
        counts = [numbers(send_counts, name="send_counts"), numbers(send_displacements, name="send_displacements"),
                  numbers(recv_counts, name="recv_counts"), numbers(recv_displacements, name="recv_displacements"),
                  numbers(received, True, "received")]
        source = None if input is None else look(input, False, dtype, "input")
        target = None if output is None else look(output, True, dtype, "output")
        return self._start_with(None if source is None else [source.address],
                                None if target is None else [target.address],
                                [each.address for each in counts] if any(each.keeps is not None for each in counts)
                                else None,
                                (source, target, counts))

    # --- texts ---------------------------------------------------------------------------------------------------

    def text(self) -> str:
        """The compiled program of this rank, as docs/schedule_file.md describes it; load() reads it."""
        return self._print(False)

    def dot(self) -> str:
        """The same as a graph in the language of Graphviz."""
        return self._print(True)

    # --- adaptive sums -------------------------------------------------------------------------------------------

    def non_finite_tensors(self) -> list[bool]:
        """Which tensors of the last round of an adasum hold NaN or infinities; the same on all ranks."""
        return self._non_finite_tensors(getattr(self, "_tensors", 1))

    # --- the end -------------------------------------------------------------------------------------------------

    def close(self, timeout: float | None = None) -> None:
        """End the schedule; once is enough. Local, but collective of a partial one: it waits for all ranks.

        Raises Busy while a round runs: wait for it, or cancel(); Timeout: nothing is gone, call again.
        """
        if not self.is_open:
            return
        self._destroy(timeout)
        self._keeps = ()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_) -> None:
        if kind is None:
            self.close()
        else:
            self._abandon(is_cancelled=True)

    def _abandon(self, is_cancelled: bool = False) -> None:
        """Ends it without waiting for anybody, and raises nothing: there is an error already.

        `is_cancelled`, or where it cannot be ended: other ranks hear of it.
        """
        try:
            try:
                if is_cancelled:
                    self.cancel()
                self._destroy(0.0)
            except Error:
                self.cancel()
                self._destroy(1.0)
            self._keeps = ()
        except Error:
            if self not in self.world._abandoned:
                self.world._abandoned.append(self)  # and with it the arrays, which somebody still uses

    def __del__(self) -> None:
        try:
            if not self.is_open or not self.world.is_open:
                return
        except AttributeError:
            return  # it was never made
        warnings.warn(f"a schedule was not closed: {self!r}", ResourceWarning, source=self)
        self._let_go()

    def _let_go(self) -> None:
        """Nobody refers to it any more. What is busy lives on, arrays and all, until the world is given up."""
        try:
            self._destroy(0.0)
        except Error:
            self.world._abandoned.append(self)
