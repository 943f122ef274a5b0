"""The base of optimizers that wrap another optimizer."""

from __future__ import annotations

import contextlib
from typing import Any, Iterable, Iterator

import torch

from ._parameters import Parameters


class Wrapper(torch.optim.Optimizer):
    """An optimizer that wraps another optimizer (the inner optimizer), and has the same state and groups of parameters.

    GradScaler calls the wrapper's step() even if gradients have overflowed, because all ranks must take part. The scale
    of GradScaler may differ between ranks, because gradients are divided by the scale before they are combined.
    """

    _step_supports_amp_scaling = True

    def __init__(self, inner: torch.optim.Optimizer, named: Iterable[tuple[str, torch.nn.Parameter]],
                 is_sharded: bool = False) -> None:
        self.inner = inner
        self.parameters = Parameters(named, is_sharded)
        its = {id(each) for group in inner.param_groups for each in group["params"] if each.requires_grad}
        if its != {id(each) for each in self.parameters.tensors}:
            raise ValueError("named_parameters and the parameters of the optimizer are not the same: pass "
                             "model.named_parameters() of the model that the optimizer trains")
        self._ids = its
        self._syncs = True

    def _expect_known_parameters(self) -> None:
        """Raises ValueError if the inner optimizer trains a parameter that is not combined over the ranks."""
        for group in self.inner.param_groups:
            for each in group["params"]:
                if each.requires_grad and id(each) not in self._ids:
                    name = type(self).__name__
                    raise ValueError(f"a parameter of shape {tuple(each.shape)} did not require a gradient when the "
                                     f"{name} was created, so the ranks do not combine its gradient: create a new "
                                     f"{name} after unfreezing parameters")

    def __getattr__(self, name: str) -> Any:
        """Reads the state, param_groups, defaults, tables of hooks and so on from the inner optimizer."""
        if name == "inner":  # __init__ has not run
            raise AttributeError(name)
        return getattr(self.inner, name)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.inner!r})"

    def zero_grad(self, set_to_none: bool = True) -> None:
        self.inner.zero_grad(set_to_none)

    def add_param_group(self, group: dict[str, Any]) -> None:
        raise RuntimeError("parameters cannot be added, because all ranks have agreed on their number: create a new "
                           f"{type(self).__name__}")

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """A context manager in which step() does nothing, so that gradients of several batches are accumulated."""
        self._syncs = False
        try:
            yield
        finally:
            self._syncs = True

    def _is_for_initial_state(self) -> bool:
        """Returns true for a step that functions of torch.distributed.checkpoint.state_dict make.

        These functions initialise the state of an optimizer by a step with zero gradients at a learning rate of 0. Such
        a step needs no other rank.
        """
        groups = self.inner.param_groups
        return (not self.inner.state and all(group.get("lr", 0.0) == 0 for group in groups)
                and all(each.grad is not None and not each.grad.any() for each in self.parameters.tensors))

    def _state_with(self, **own: Any) -> dict[str, Any]:
        """Returns the inner optimizer's state with the members that the wrapper adds."""
        told = self.inner.state_dict()
        told["libsched"] = {"version": 1, "names": list(self.parameters.names), **own}
        return told

    def _load_inner(self, state: dict[str, Any]) -> dict[str, Any] | None:
        """Loads the state of the inner optimizer. Returns the members that the wrapper had added, or None."""
        state = dict(state)
        mine = state.pop("libsched", None)
        if mine is not None and mine["names"] != self.parameters.names:
            raise ValueError("the state belongs to a model with other parameters: load the state of this model")
        self.inner.load_state_dict(state)
        return mine

    def _scale(self) -> torch.Tensor | None:
        """Returns the scale by which a GradScaler has multiplied the gradients; None: the gradients are not scaled."""
        return getattr(self, "grad_scale", None)

    def _has_overflowed(self) -> bool:
        found = getattr(self, "found_inf", None)
        return found is not None and found.item() > 0
