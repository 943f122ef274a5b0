"""The parameters of a model, and vectors in which theirs lie one after the other."""

from __future__ import annotations

from typing import Iterable

import torch


class Parameters:
    """Those of a model that are trained, in the order in which they were named; the same on all ranks."""

    def __init__(self, named: Iterable[tuple[str, torch.nn.Parameter]]) -> None:
        self.names: list[str] = []
        self.tensors: list[torch.nn.Parameter] = []
        for name, tensor in named:
            if tensor.requires_grad and tensor.is_complex():
                raise ValueError(f"{name} is complex, and sums here are of real numbers")
            if tensor.requires_grad and not tensor.is_cpu:
                raise NotImplementedError(f"{name} is on {tensor.device}, and partial, adaptive and sparse sums are of "
                                          "models on the CPU")
            if tensor.requires_grad:
                self.names.append(name)
                self.tensors.append(tensor)
        if not self.tensors:
            raise ValueError("there are no parameters that want a gradient")
        wide = any(each.dtype == torch.float64 for each in self.tensors)
        self.dtype = torch.float64 if wide else torch.float32
        self.word = "f64" if wide else "f32"
        self.count = sum(each.numel() for each in self.tensors)

    def table(self) -> list[tuple[int, int]]:
        """(begin, count) of each in a vector."""
        begin, all = 0, []
        for each in self.tensors:
            all.append((begin, each.numel()))
            begin += each.numel()
        return all

    def vector(self) -> Vector:
        return Vector(self)


class Vector:
    """A flat tensor with room for all parameters; `parts` are views of it, shaped as they are."""

    def __init__(self, of: Parameters) -> None:
        self._of = of
        self.flat = torch.zeros(of.count, dtype=of.dtype)
        self.parts = [self.flat[begin:begin + count].view(each.shape)
                      for each, (begin, count) in zip(of.tensors, of.table())]

    @torch.no_grad()
    def take_weights(self) -> None:
        torch._foreach_copy_(self.parts, self._of.tensors)

    @torch.no_grad()
    def give_weights(self) -> None:
        torch._foreach_copy_(self._of.tensors, self.parts)

    @torch.no_grad()
    def take_gradients(self, scale: torch.Tensor | None = None) -> None:
        """A parameter without a gradient counts as zeros. `scale` is what gradients were multiplied by."""
        with_one = [(part, each.grad) for part, each in zip(self.parts, self._of.tensors) if each.grad is not None]
        if len(with_one) < len(self.parts):
            self.flat.zero_()
        if with_one:
            torch._foreach_copy_(*(list(each) for each in zip(*with_one)))
        if scale is not None:
            self.flat.div_(scale)

    @torch.no_grad()
    def be_gradients(self) -> None:
        """The parameters' gradients are its parts from now on, or copies where the dtype is another."""
        for part, each in zip(self.parts, self._of.tensors):
            each.grad = part if part.dtype == each.dtype else part.to(each.dtype)
