"""Training tasks: data, a model, and the duration of each rank's steps. All ranks get the same task from a seed."""

from __future__ import annotations

import csv
import functools
import gzip
import importlib.util
import pathlib
import random
from typing import Any

import torch
from torch import nn


def _folder_of(package: str, hint: str) -> pathlib.Path:
    """Returns the folder of a package. Does not import the package."""
    found = importlib.util.find_spec(package)
    if found is None:
        raise SystemExit(f"the data set needs the package {package}: pip install --no-deps {hint}")
    return pathlib.Path(found.submodule_search_locations[0])


class Task:
    """A task of `steps` steps. An epoch has `epoch` steps. In each step, a rank has a batch of `batch` examples."""

    ranks = 8
    batch = 8
    epochs = 20
    rate = 0.3
    momentum = 0.9

    def __init__(self, seed: int, dtype: torch.dtype) -> None:
        self.seed = seed
        self.dtype = dtype
        self.load()
        self.epoch = self.examples // (self.batch * self.ranks)
        self.steps = self.epochs * self.epoch
        self._orders: dict[int, torch.Tensor] = {}

    def load(self) -> None:
        """Sets `examples`, and the data that model() and loss() need."""
        raise NotImplementedError

    def model(self) -> nn.Module:
        raise NotImplementedError

    def loss(self, model: nn.Module, rank: int, step: int) -> torch.Tensor:
        """Returns the loss of the rank's batch in the step. Steps are numbered from 0."""
        raise NotImplementedError

    def accuracy(self, model: nn.Module) -> float:
        raise NotImplementedError

    def units(self, rank: int, step: int) -> float:
        """Returns the duration of the step in units of the load."""
        raise NotImplementedError

    def late_rank(self, step: int) -> int:
        """Returns a random rank, for loads that make one rank late in each step."""
        drawn = torch.Generator().manual_seed(104729 * self.seed + step)
        return int(torch.randint(self.ranks, (1,), generator=drawn).item())

    def optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.SGD(model.parameters(), lr=self.rate, momentum=self.momentum)

    def rate_of(self, round: int) -> float:
        return self.rate * max(0.0, 1.0 - (round - 1) / self.steps)

    def order(self, epoch: int) -> torch.Tensor:
        """Returns the random order of all examples in an epoch."""
        if epoch not in self._orders:
            drawn = torch.Generator().manual_seed(1000003 * self.seed + epoch)
            self._orders[epoch] = torch.randperm(self.examples, generator=drawn)
        return self._orders[epoch]

    def places(self, rank: int, step: int) -> torch.Tensor:
        """Returns the indices of the examples in the rank's batch."""
        begin = ((step % self.epoch) * self.ranks + rank) * self.batch
        return self.order(step // self.epoch)[begin:begin + self.batch]


class Digits(Task):
    """Handwritten digits of scikit-learn, and an MLP. The delays rotate from rank to rank."""

    delays = [50.0 + 50.0 * each for each in range(8)]
    base = 100.0
    hidden = 64
    standardises_each_pixel = True

    def load(self) -> None:
        file = _folder_of("sklearn", "scikit-learn") / "datasets" / "data" / "digits.csv.gz"
        with gzip.open(file, "rt") as lines:
            rows = torch.tensor([[float(each) for each in row] for row in csv.reader(lines)], dtype=self.dtype)
        rows = rows[torch.randperm(len(rows), generator=torch.Generator().manual_seed(7))]
        x, y = rows[:, :64], rows[:, 64].long()
        self.examples = 1437
        known = x[:self.examples]
        if self.standardises_each_pixel:
            x = (x - known.mean(0)) / torch.where(known.std(0) > 0, known.std(0), 1.0)
        else:
            x = (x - known.mean()) / known.std()
        self.train_set, self.test_set = (x[:self.examples], y[:self.examples]), (x[self.examples:], y[self.examples:])

    def model(self) -> nn.Module:
        torch.manual_seed(self.seed)
        return nn.Sequential(nn.Linear(64, self.hidden), nn.Tanh(), nn.Linear(self.hidden, 10)).to(self.dtype)

    def loss(self, model: nn.Module, rank: int, step: int) -> torch.Tensor:
        return self.loss_of(model, self.places(rank, step))

    def loss_of(self, model: nn.Module, these: Any) -> torch.Tensor:
        return nn.functional.cross_entropy(model(self.train_set[0][these]), self.train_set[1][these])

    @torch.no_grad()
    def accuracy(self, model: nn.Module) -> float:
        x, y = self.test_set
        return (model(x).argmax(1) == y).double().mean().item()

    def units(self, rank: int, step: int) -> float:
        return self.base + self.delays[(rank + step) % self.ranks]


class DigitsOneLate(Digits):
    """Digits with eight ranks. In each step, one random rank is late."""

    base = 195.0
    late = 300.0

    def units(self, rank: int, step: int) -> float:
        return self.base + (self.late if self.late_rank(step) == rank else 0.0)


class LateDigits(Digits):
    """Digits on four ranks, steps of 60 to 66 units, and one kind of lateness."""

    ranks = 4
    batch = 16
    epochs = 15
    base = 60.0
    late = 400.0

    def __init__(self, kind: str, seed: int, dtype: torch.dtype) -> None:
        self.kind = kind
        super().__init__(seed, dtype)

    def units(self, rank: int, step: int) -> float:
        drawn = random.Random((self.seed * self.ranks + rank) * 10**6 + step)
        time = self.base * drawn.uniform(1.0, 1.1)
        if self.kind == "two classes":
            return time * (2 if rank >= self.ranks // 2 else 1)
        late_rank = {"none": None, "in turn": step % self.ranks, "random": self.late_rank(step), "always": 1}[self.kind]
        return time + (self.late if rank == late_rank else 0.0)


LATENESS = ("none", "in turn", "random", "always", "two classes")


class Vowels(Task):
    """Japanese vowels, series of 7 to 29 steps, and an LSTM. A batch has series of similar lengths, so the costs of
    batches differ."""

    batch = 4
    epochs = 60
    rate = 0.1

    def load(self) -> None:
        folder = _folder_of("aeon", "aeon") / "datasets" / "data" / "JapaneseVowels"
        trained, tested = (self._read(folder / f"JapaneseVowels_{each}.ts") for each in ("TRAIN", "TEST"))
        all = torch.cat(trained[0])
        self._mean, self._deviation = all.mean(0), all.std(0)
        self.series, self.lengths, self.labels = self._padded(*trained)
        self.test_set = self._padded(*tested)
        self.examples = len(self.labels)
        self._by_length = torch.sort(self.lengths, stable=True).indices

    def _read(self, file: pathlib.Path) -> tuple[list[torch.Tensor], list[int]]:
        series, labels = [], []
        for line in file.read_text().splitlines():
            if line and line[0] not in "#@":
                *channels, label = line.split(":")
                series.append(torch.tensor([[float(each) for each in row.split(",")] for row in channels]).T)
                labels.append(int(label) - 1)
        return series, labels

    def _padded(self, series: list[torch.Tensor], labels: list[int]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        lengths = torch.tensor([len(each) for each in series])
        standard = [((each - self._mean) / self._deviation).to(self.dtype) for each in series]
        return nn.utils.rnn.pad_sequence(standard, batch_first=True), lengths, torch.tensor(labels)

    def model(self) -> nn.Module:
        torch.manual_seed(self.seed)
        return _Last(self.dtype)

    def rate_of(self, round: int) -> float:
        return self.rate

    def places(self, rank: int, step: int) -> torch.Tensor:
        """Returns a batch of series with similar lengths. The batch is drawn at random."""
        batches = self.examples // self.batch
        drawn = torch.randperm(batches, generator=torch.Generator().manual_seed(
            1000003 * self.seed + step // self.epoch))
        which = drawn[(step % self.epoch) * self.ranks + rank].item()
        return self._by_length[which * self.batch:(which + 1) * self.batch]

    def loss(self, model: nn.Module, rank: int, step: int) -> torch.Tensor:
        these = self.places(rank, step)
        longest = self.lengths[these].max()
        told = model(self.series[these, :longest], self.lengths[these])
        return nn.functional.cross_entropy(told, self.labels[these])

    @torch.no_grad()
    def accuracy(self, model: nn.Module) -> float:
        series, lengths, labels = self.test_set
        return (model(series, lengths).argmax(1) == labels).double().mean().item()

    def units(self, rank: int, step: int) -> float:
        return 10.0 * self.lengths[self.places(rank, step)].max().item()


class _Last(nn.Module):
    """An LSTM that classifies each series by the state at its end."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.lstm = nn.LSTM(12, 32, batch_first=True, dtype=dtype)
        self.out = nn.Linear(32, 9, dtype=dtype)

    def forward(self, series: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        states, _ = self.lstm(series)
        return self.out(states[torch.arange(len(lengths)), lengths - 1])


class Microbatches(Digits):
    """Digits in microbatches of 8 on any number of ranks. The learning rate is the rate of a training with one rank.
    The rate first rises and then falls."""

    hidden = 32
    standardises_each_pixel = False  # True would hide that the sum diverges, because some pixels are rarely lit
    epochs = 4
    rate = 0.279
    momentum = 0.5

    def __init__(self, seed: int, dtype: torch.dtype, ranks: int) -> None:
        self.ranks = ranks
        super().__init__(seed, dtype)

    def rate_of(self, round: int) -> float:
        warm = max(1.0, 0.17 * self.steps)
        return self.rate * min(round / warm, (self.steps - round + 1) / (self.steps - warm + 1))


class Fashion(Microbatches):
    """12,000 pictures of Fashion-MNIST and a LeNet of 21,840 parameters, in microbatches of 32."""

    batch = 32
    epochs = 2
    rate = 0.1
    folder = pathlib.Path("/usr/share/datasets/fashion-mnist")

    def load(self) -> None:
        self.examples = 12000
        self.train_set = self._read("train", self.examples)
        self.test_set = self._read("t10k", 10000)

    def _read(self, name: str, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        def read(kind: str, begin: int) -> torch.Tensor:
            file = self.folder / f"{name}-{kind}-ubyte.gz"
            if not file.exists():
                raise SystemExit(f"{file} is missing: apt-get install dataset-fashion-mnist")
            with gzip.open(file) as data:
                return torch.frombuffer(bytearray(data.read()), dtype=torch.uint8)[begin:]

        pictures = read("images-idx3", 16).view(-1, 1, 28, 28)[:count].to(self.dtype) / 255
        return (pictures - 0.2860) / 0.3530, read("labels-idx1", 8)[:count].long()

    def model(self) -> nn.Module:
        torch.manual_seed(self.seed)
        return nn.Sequential(nn.Conv2d(1, 10, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Conv2d(10, 20, 5), nn.MaxPool2d(2),
                             nn.ReLU(), nn.Flatten(), nn.Linear(320, 50), nn.ReLU(), nn.Linear(50, 10)).to(self.dtype)


class Sparse(Digits):
    """Digits with a wider MLP of 9,610 parameters and a low rate."""

    hidden = 128
    epochs = 28
    rate = 0.1


class Hyperplane(Task):
    """The regression of docs/examples/hyperplane at an eighth of the size: y = a x + b plus noise. One random rank of
    the eight is late by `late` units in each step. `accuracy` is the mean squared error, so less is better."""

    base = 320.0
    batch = 32
    epochs = 12
    rate = 0.3
    momentum = 0.0
    dimensions = 1024
    examples = 4096
    tests = 2048
    noise = 2.0  # bound of the noise; its variance, 4/3, is part of every loss

    def __init__(self, late: float, seed: int, dtype: torch.dtype) -> None:
        self.late = late
        super().__init__(seed, dtype)

    def load(self) -> None:
        (x, y), known = self._points(self.seed, self.dtype), self.examples
        self.train_set, self.test_set = (x[:known], y[:known]), (x[known:], y[known:])

    @classmethod
    @functools.lru_cache(maxsize=4)
    def _points(cls, seed: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the points, which are the same for all delays."""
        drawn = torch.Generator().manual_seed(15485863 * seed + 11)

        def uniform(*shape: int) -> torch.Tensor:
            return 2 * torch.rand(*shape, generator=drawn, dtype=torch.float64) - 1

        count = cls.examples + cls.tests
        x = uniform(count, cls.dimensions)
        y = x @ (10 * uniform(cls.dimensions)) + 10 * uniform(1) + cls.noise * uniform(count)
        return x.to(dtype), y.to(dtype)

    def model(self) -> nn.Module:
        torch.manual_seed(self.seed)
        return nn.Sequential(nn.Linear(self.dimensions, 1), nn.Flatten(0)).to(self.dtype)

    def loss(self, model: nn.Module, rank: int, step: int) -> torch.Tensor:
        these = self.places(rank, step)
        return nn.functional.mse_loss(model(self.train_set[0][these]), self.train_set[1][these])

    @torch.no_grad()
    def accuracy(self, model: nn.Module) -> float:
        x, y = self.test_set
        return nn.functional.mse_loss(model(x), y).item()

    def units(self, rank: int, step: int) -> float:
        return self.base + (self.late if self.late_rank(step) == rank else 0.0)


TASKS: dict[str, Any] = {"digits": Digits, "digits_one_late": DigitsOneLate, "vowels": Vowels,
                         **{kind: functools.partial(LateDigits, kind) for kind in LATENESS},
                         **{f"hyperplane_{late}": functools.partial(Hyperplane, late) for late in (200, 300, 400)}}
