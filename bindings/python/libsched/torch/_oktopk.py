"""Training with the largest elements of the gradient alone (Li and Hoefler, PPoPP 2022)."""

from typing import Any, Callable

import torch
import torch.distributed as dist

from .._errors import NotFinite
from ._hook import Hook


class OkTopkState(Hook):
    """A sparse allreduce with error feedback in place of DistributedDataParallel's dense one.

        state = libsched.torch.OkTopkState(ddp, density=0.01, warmup_steps=100)
        ddp.register_comm_hook(state, libsched.torch.oktopk_hook)

    Gradients become the mean over ranks of the largest `density` of all elements of the model, zero elsewhere, the same
    bits on all ranks; what was left out is added to the next gradient.
        density       a share of the elements, or a function of the number of the step
        warmup_steps  steps with the dense mean at the beginning
        nans          "error": backward() raises an error that tells of NotFinite; "skip": gradients are NaN on all
                      ranks instead, so that a GradScaler leaves the step out on all of them; "ignore", "propagate"
        capacity, period, boundaries, balance, selection, reuse   as of libsched.Sparse
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
        """A schedule for that many elements; what was left out so far goes on with it."""
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
        """The next step makes another."""
        if self._sparse is not None:
            self._sparse.close()
        self._sparse = None
        self.k = 0

    def _residual(self) -> torch.Tensor:
        return torch.frombuffer(self._sparse.residual(), dtype=self.parameters.dtype)

    # --- checkpoints ---------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Between steps: this rank's residual by parameter, and all else that lives from step to step."""
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
        """Such a state, by all ranks. Of another number of ranks or density the residuals alone live on."""
        if (state["ranks"] == self.world.size) and state["rank"] != self.world.rank:
            raise ValueError(f"the state is of rank {state['rank']}, and this is {self.world.rank}")
        known = {name: each.numel() for name, each in zip(self.parameters.names, self.parameters.tensors)}
        for name, each in state["residual"].items():
            if known.get(name) != each.numel():
                raise ValueError(f"the state has a residual of {each.numel()} elements for {name}")
        self.steps = state["steps"]
        self._loaded = state
        self._close_sparse()

    def statistics(self) -> dict[str, int]:
        """What this rank has sent and received since the density was last changed; as of libsched.Sparse."""
        return {} if self._sparse is None else self._sparse.statistics()

    def close(self) -> None:
        for each in (self._dense, self._sparse):
            if each is not None:
                each.close()


class _Skipping:
    """A round that ends well where its sum is not finite, as a Work waits for it."""

    def __init__(self, of: OkTopkState, ticket: Any) -> None:
        self._of = of
        self._ticket = ticket

    def wait(self, timeout: float) -> None:
        try:
            self._ticket.wait(timeout)
        except NotFinite:
            self._of._is_skipped = True

    def test(self) -> bool:
        return False  # whether it is finite, wait() says


def oktopk_hook(state: OkTopkState, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """The hook of DistributedDataParallel that goes with OkTopkState."""
    return state.take(bucket)
