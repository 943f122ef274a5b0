"""Language tasks: a GRU predicts the next character of a text, and an LSTM recognises the speaker."""

from __future__ import annotations

import torch
from torch import nn

from tasks import Task, Vowels


class Text(Task):
    """Windows of `length` characters of the text in the module pydoc_data.topics. The last tenth is for validation. The
    text depends on the release of Python."""

    ranks = 4
    epochs = 4
    rate = 0.4
    length = 32
    embedded = 64
    hidden = 136
    share = 1.0  # part of the text that is used

    def load(self) -> None:
        from pydoc_data.topics import topics

        text = "".join(topics[key] for key in sorted(topics))
        text = text[:int(self.share * len(text))]
        places = {each: place for place, each in enumerate(sorted(set(text)))}
        self.symbols = len(places)
        codes = torch.tensor([places[each] for each in text])
        begin = len(codes) - len(codes) // 10
        self.train_set, self.test_set = self._windows(codes[:begin]), self._windows(codes[begin:])
        self.examples = len(self.train_set)

    def _windows(self, codes: torch.Tensor) -> torch.Tensor:
        """Returns windows of `length` + 1 characters, because the last character is only predicted."""
        return codes.unfold(0, self.length + 1, self.length)

    def model(self) -> nn.Module:
        torch.manual_seed(self.seed)
        return _Next(self.symbols, self.embedded, self.hidden, self.dtype)

    def loss(self, model: nn.Module, rank: int, step: int) -> torch.Tensor:
        return _loss_of(model, self.train_set[self.places(rank, step)])

    def measures(self, model: nn.Module) -> dict[str, float]:
        """Returns losses in nats per character."""
        return {"loss": self.loss_of(model, self.train_set), "validation": self.loss_of(model, self.test_set)}

    @torch.no_grad()
    def loss_of(self, model: nn.Module, windows: torch.Tensor) -> float:
        return sum(_loss_of(model, each).item() * len(each) for each in windows.split(256)) / len(windows)


def _loss_of(model: nn.Module, windows: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(model(windows[:, :-1]).flatten(0, 1), windows[:, 1:].flatten())


class _Next(nn.Module):
    """A GRU that predicts the character after each character."""

    def __init__(self, symbols: int, embedded: int, hidden: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.embedding = nn.Embedding(symbols, embedded, dtype=dtype)
        self.gru = nn.GRU(embedded, hidden, batch_first=True, dtype=dtype)
        self.out = nn.Linear(hidden, symbols, dtype=dtype)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        states, _ = self.gru(self.embedding(codes))
        return self.out(states)


class ShortText(Text):
    """A smaller model on a small part of the text."""

    epochs = 1
    length = 6
    embedded = 32
    hidden = 48
    share = 0.06


class Speakers(Vowels):
    """Japanese vowels on four ranks. The learning rate falls linearly."""

    ranks = 4
    rate_of = Task.rate_of

    @torch.no_grad()
    def measures(self, model: nn.Module) -> dict[str, float]:
        """Returns the error in percent, and the loss."""
        loss = nn.functional.cross_entropy(model(self.series, self.lengths), self.labels)
        return {"error": 100 * (1 - self.accuracy(model)), "loss": loss.item()}


class ShortSpeakers(Speakers):
    epochs = 7
