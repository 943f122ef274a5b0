"""The parameters of a model, and flat vectors that contain all parameters one after the other."""

from __future__ import annotations

from typing import Iterable

import torch


def local_of(tensor: torch.Tensor) -> torch.Tensor:
    """Returns this rank's shard of a DTensor (FSDP2), or the tensor itself."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


class Parameters:
    """The parameters of a model that require a gradient, in the given order. All ranks must give the same order.

    If `is_sharded` is true, parameters may be DTensors (FSDP2), and vectors have the elements of this rank's shards.
    """

    def __init__(self, named: Iterable[tuple[str, torch.nn.Parameter]], is_sharded: bool = False) -> None:
        self.names: list[str] = []
        self.tensors: list[torch.nn.Parameter] = []
        for name, tensor in named:
            if tensor.requires_grad and tensor.is_complex():
                raise ValueError(f"{name} is complex, but partial, adaptive and sparse sums need real numbers")
            if tensor.requires_grad and not tensor.is_cpu:
                raise NotImplementedError(f"{name} is on {tensor.device}, but partial, adaptive and sparse sums need "
                                          "models on the CPU")
            if tensor.requires_grad:
                self.names.append(name)
                self.tensors.append(tensor)
        if not is_sharded and any(hasattr(each, "to_local") for each in self.tensors):
            raise ValueError("a parameter is a DTensor, so the ranks have different shards of the model: pass "
                             "replicas=, a mesh of groups and shards, to PartialOptimizer")
        if not self.tensors:
            raise ValueError("no parameter of the model requires a gradient: set requires_grad before this call")
        wide = any(each.dtype == torch.float64 for each in self.tensors)
        self.dtype = torch.float64 if wide else torch.float32
        self.word = "f64" if wide else "f32"
        self.count = sum(local_of(each).numel() for each in self.tensors)

    def locals(self) -> list[torch.Tensor]:
        return [local_of(each.detach()) for each in self.tensors]

    def table(self) -> list[tuple[int, int]]:
        """Returns (begin, count) of each parameter in a vector."""
        begin, all = 0, []
        for each in self.locals():
            all.append((begin, each.numel()))
            begin += each.numel()
        return all

    def vector(self) -> Vector:
        return Vector(self)

    def flagged_vector(self) -> FlaggedVector:
        return FlaggedVector(self)


def expect_dense_gradients(model: torch.nn.Module) -> None:
    """Raises ValueError for a model whose layers have sparse gradients."""
    for name, layer in model.named_modules():
        if isinstance(layer, (torch.nn.Embedding, torch.nn.EmbeddingBag)) and layer.sparse:
            raise ValueError(f"{name or 'the model'} has sparse gradients, but this hook adds only dense gradients: "
                             f"create the {type(layer).__name__} with sparse=False")


class Vector:
    """A flat tensor with an element for each element of all parameters. `parts` are views, one for each parameter."""

    def __init__(self, of: Parameters, extra: int = 0) -> None:
        """`extra` is the number of additional elements at the end."""
        self._of = of
        self.flat = torch.zeros(of.count + extra, dtype=of.dtype, device="cpu")
        self.parts = [self.flat[begin:begin + count].view(each.shape)
                      for each, (begin, count) in zip(of.locals(), of.table())]

    @torch.no_grad()
    def take_weights(self) -> None:
        torch._foreach_copy_(self.parts, self._of.locals())

    @torch.no_grad()
    def give_weights(self) -> None:
        torch._foreach_copy_(self._of.locals(), self.parts)

    @torch.no_grad()
    def take_gradients(self, scale: torch.Tensor | None = None) -> None:
        """Copies the gradients, and divides them by `scale`. A parameter without a gradient counts as zero."""
        for name, each in zip(self._of.names, self._of.tensors):
            if each.grad is not None and each.grad.layout != torch.strided:
                raise ValueError(f"{name} has a sparse gradient, but partial sums need dense gradients: create its "
                                 "layer with sparse=False")
        with_one = [(part, local_of(each.grad)) for part, each in zip(self.parts, self._of.tensors)
                    if each.grad is not None]
        if len(with_one) < len(self.parts):
            self.flat.zero_()
        if with_one:
            torch._foreach_copy_(*(list(each) for each in zip(*with_one)))
        if scale is not None:
            self.flat.div_(scale)

    @torch.no_grad()
    def be_gradients(self) -> None:
        """Sets `grad` of each parameter to its part of this vector.

        If the dtype or the order in memory differs between a parameter and this vector, the parameter gets a copy in
        its own order. Fused optimizers require this order.
        """
        for part, each in zip(self.parts, self._of.tensors):
            if local_of(each) is not each:
                each.grad = torch.empty_like(each) if each.grad is None else each.grad
                local_of(each.grad).copy_(part)
                continue
            is_alike = part.dtype == each.dtype and part.stride() == each.stride()
            each.grad = part if is_alike else torch.empty_like(each).copy_(part)


class FlaggedVector(Vector):
    """A vector of gradients, followed by a flag for each parameter: 1 if the parameter has a gradient.

    In the sum over ranks, a flag is 0 if no rank has used the parameter.
    """

    def __init__(self, of: Parameters) -> None:
        super().__init__(of, extra=len(of.tensors))
        self._flags = self.flat[of.count:]

    def take_gradients(self, scale: torch.Tensor | None = None) -> None:
        super().take_gradients(scale)
        self._flags.copy_(torch.tensor([each.grad is not None for each in self._of.tensors], device="cpu"))

    def be_gradients(self) -> None:
        """Sets `grad` of each parameter to its part, or to None for parameters that no rank has used."""
        super().be_gradients()
        for each, flag in zip(self._of.tensors, self._flags.tolist()):
            if flag == 0:
                each.grad = None
