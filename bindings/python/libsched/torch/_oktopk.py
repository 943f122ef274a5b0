"""Training that exchanges only the largest elements of the gradient (Li and Hoefler, PPoPP 2022)."""

from typing import Any, Callable

import torch
import torch.distributed as dist

from .._errors import NotFinite
from ._hook import Hook


class OkTopkState(Hook):
    """The state of oktopk_hook, which replaces DDP's dense allreduce by a sparse one with error feedback.

        state = libsched.torch.OkTopkState(ddp, density=0.01, warmup_steps=100)
        ddp.register_comm_hook(state, libsched.torch.oktopk_hook)

    The hook selects the elements of the gradient with the largest magnitudes, a fraction of `density`. The hook
    replaces these elements by their mean over ranks, with the same bits on all ranks. All other elements become zero. A
    rank keeps its elements that were not sent, and adds them to the next gradient.
        density       fraction of the elements, or a function that returns the fraction for a step number
        warmup_steps  number of steps at the beginning that use the dense mean
        nans          "error": backward() raises an error that names NotFinite; "skip": gradients become NaN on all
                      ranks instead, so that a GradScaler skips the step on all ranks; "ignore" and "propagate": as in
                      libsched.Sparse
        capacity, period, boundaries, balance, selection, reuse   options of libsched.Sparse
    """

    def __init__(self, ddp: Any, density: float | Callable[[int], float] = 0.01, *, warmup_steps: int = 0,
                 nans: str = "error", capacity: str = "defer", timeout: float | None = None, **options: Any) -> None:
        super().__init__(ddp, timeout)
        self._density = density if callable(density) else lambda _: density
        self._warmup = warmup_steps
        self._skips, self._is_skipped = nans == "skip", False
        self._options = dict(options, algorithm="oktopk", nans="error" if self._skips else nans, capacity=capacity)
        self.steps = 0
        self._dense: Any = None
        self._sparse: Any = None
        self.k = 0
        self._loaded: dict[str, Any] | None = None

    def _begin(self) -> Any:
        self._is_skipped = False
        self.steps += 1
        if self.steps <= self._warmup:
            if self._dense is None:
                self._dense = self.world.allreduce(self.gradient.flat, self.result.flat, divisor="ranks")
            return self._dense.start()
        k = max(1, min(self.parameters.count, round(self._density(self.steps) * self.parameters.count)))
        if k != self.k:
            self._change_to(k)
        return _Skipping(self, self._sparse.start()) if self._skips else self._sparse.start()

    @torch.no_grad()
    def _give_back(self, taken: list[tuple[torch.Tensor, int]]) -> None:
        if not self._is_skipped:
            return super()._give_back(taken)
        for each, _ in taken:
            each.fill_(float("nan"))

    def _change_to(self, k: int) -> None:
        """Creates a schedule for `k` elements that continues with the residual of the previous schedule."""
        state = self.state_dict() if self._loaded is None else self._loaded
        self._close_sparse()
        is_alike = state["image"] is not None and (state["k"], state["ranks"]) == (k, self.world.size)
        image = bytes(state["image"].numpy()) if is_alike else None
        self._sparse = self.world.sparse_allreduce(self.gradient.flat, self.result.flat, k, image=image,
                                                   **self._options)
        self._sparse._create_wait(self.limit)
        self.k = k
        if image is None:
            residual = self._residual()
            for name, (begin, count) in zip(self.parameters.names, self.parameters.table()):
                if name in state["residual"]:
                    residual[begin:begin + count].copy_(state["residual"][name])
        self._loaded = None

    def _close_sparse(self) -> None:
        """Closes the sparse schedule. The next step creates a new schedule."""
        if self._sparse is not None:
            self._sparse.close()
        self._sparse = None
        self.k = 0

    def _residual(self) -> torch.Tensor:
        return torch.frombuffer(self._sparse.residual(), dtype=self.parameters.dtype)

    # --- checkpoints ---------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Returns this rank's residual by parameter, and all other state on which later steps depend.

        Must be called between steps.
        """
        if self._loaded is not None:
            return {**self._loaded, "steps": self.steps}
        told: dict[str, Any] = {"version": 1, "rank": self.world.rank, "ranks": self.world.size, "steps": self.steps,
                                "k": self.k, "residual": {}, "image": None}
        if self._sparse is not None:
            parts = zip(self.parameters.names, self.parameters.table())
            residual = self._residual()
            told["residual"] = {name: residual[begin:begin + count].clone() for name, (begin, count) in parts}
            told["image"] = torch.frombuffer(bytearray(self._sparse.save()), dtype=torch.uint8)
        return told

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Loads a state that state_dict() has returned.

        All ranks must call this method. If the number of ranks or the density differs, only the residuals are used.
        """
        if (state["ranks"] == self.world.size) and state["rank"] != self.world.rank:
            raise ValueError(f"the state is of rank {state['rank']}, but this is rank {self.world.rank}: load the "
                             "state that this rank has saved")
        known = {name: each.numel() for name, each in zip(self.parameters.names, self.parameters.tensors)}
        for name, each in state["residual"].items():
            if known.get(name) != each.numel():
                raise ValueError(f"the state has {each.numel()} residual elements for {name}, but the model has "
                                 f"{known.get(name, 0)}: load a state of the same model")
        self.steps = state["steps"]
        self._loaded = state
        self._close_sparse()

    def statistics(self) -> dict[str, int]:
        """Returns counters of this rank's data since the density last changed, as libsched.Sparse.statistics() does."""
        return {} if self._sparse is None else self._sparse.statistics()

    def close(self) -> None:
        for each in (self._dense, self._sparse):
            if each is not None:
                each.close()


class _Skipping:
    """A round for which a Work can wait. The wait succeeds even if the sum is not finite."""

    def __init__(self, of: OkTopkState, ticket: Any) -> None:
        self._of = of
        self._ticket = ticket

    def wait(self, timeout: float) -> None:
        try:
            self._ticket.wait(timeout)
        except NotFinite:
            self._of._is_skipped = True

    def test(self) -> bool:
        return False  # only wait() finds out whether the sum is finite


def oktopk_hook(state: OkTopkState, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """The communication hook of DistributedDataParallel for an OkTopkState."""
    return state.take(bucket)
