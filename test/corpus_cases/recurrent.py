# SPDX-License-Identifier: MIT
from torch import nn

from .kit import Each, case, f32


class Use(nn.Module):
    """A recurrent module, and what a network uses of its outputs."""

    def __init__(self, module, use):
        super().__init__()
        self.module = module
        self.use = use

    def forward(self, *inputs):
        return self.use(self.module, *inputs)


def flat(result):
    sequence, state = result
    return (sequence, *state) if isinstance(state, tuple) else (sequence, state)


def whole(module):
    return Use(module, lambda m, *inputs: flat(m(*inputs)))


@case(f32(4, 2, 3))
def lstm_forms():
    return Each(
        whole(nn.LSTM(3, 5)),
        whole(nn.LSTM(3, 4, num_layers=2, bidirectional=True, bias=False)),
        whole(nn.LSTM(3, 6, num_layers=2, bidirectional=True, proj_size=2)),
        whole(nn.LSTM(3, 6, batch_first=True, proj_size=4)),
    )


@case(f32(4, 2, 3))
def gru_forms():
    return Each(
        whole(nn.GRU(3, 5)),
        whole(nn.GRU(3, 4, num_layers=2, bidirectional=True, bias=False)),
        whole(nn.GRU(3, 9, num_layers=3, batch_first=True)),
    )


@case(f32(4, 2, 3))
def rnn_forms():
    return Each(
        whole(nn.RNN(3, 5)),
        whole(nn.RNN(3, 4, num_layers=2, bidirectional=True, nonlinearity="relu")),
        whole(nn.RNN(3, 9, bias=False, batch_first=True, nonlinearity="relu")),
    )


@case(f32(3, 2, 4), f32(2, 2, 5), f32(2, 2, 5), unfaithful="takes one state of an LSTM for the pair")
def recurrent_states():
    class States(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(4, 5, num_layers=2)
            self.same = nn.LSTM(4, 5, bidirectional=True)
            self.gru = nn.GRU(4, 5, bidirectional=True)
            self.rnn = nn.RNN(4, 5, num_layers=2)

        def forward(self, x, h, c):
            return (
                *flat(self.lstm(x, (h, c))),
                *flat(self.same(x, (h, h))),
                *flat(self.gru(x, h)),
                *flat(self.rnn(x, c)),
            )

    return States()


@case(f32(5, 2, 3), unfaithful="unpacks what a recurrent module returns as if it returned all")
def recurrent_parts():
    """Networks that use some of the outputs, or all in another order."""

    def two(part):
        def use(module, x):
            sequence, state = module(x)
            return part(sequence, state)

        return use

    return Each(
        Use(nn.LSTM(3, 4), lambda m, x: m(x)[0]),
        Use(nn.LSTM(3, 4), lambda m, x: m(x)[1][0]),
        Use(nn.LSTM(3, 4, proj_size=2), lambda m, x: m(x)[1][1]),
        Use(nn.LSTM(3, 4), two(lambda sequence, state: (state[0], sequence))),
        Use(nn.GRU(3, 4), lambda m, x: m(x)[1][-1]),
        Use(nn.GRU(3, 4, batch_first=True), lambda m, x: m(x)[0][:, -1]),
        Use(nn.RNN(3, 4, num_layers=2), two(lambda sequence, state: (state, sequence))),
    )


@case(f32(5, 3), f32(1, 4), f32(1, 4))
def recurrent_unbatched():
    class Unbatched(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(3, 4)
            self.given = nn.LSTM(3, 4, batch_first=True)
            self.gru = nn.GRU(3, 4, num_layers=2, bidirectional=True)
            self.rnn = nn.RNN(3, 4, batch_first=True)

        def forward(self, x, h, c):
            return (
                *flat(self.lstm(x)),
                *flat(self.given(x, (h, c))),
                *flat(self.gru(x)),
                *flat(self.rnn(x, h)),
            )

    return Unbatched()


@case(f32(1, 6, 3), second=[f32(2, 4, 3)], symbolic=True, unfaithful="takes all that nn.RNN returns for its state")
def recurrent_any_length():
    """A classifier of sequences: traced for one, run on several of another length."""

    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.gru = nn.GRU(3, 4, batch_first=True)
            self.lstm = nn.LSTM(4, 5, batch_first=True, bidirectional=True)
            self.last = nn.RNN(10, 4, batch_first=True)
            self.head = nn.Linear(4, 3)

        def forward(self, x):
            x, _ = self.gru(x)
            x, _ = self.lstm(x)
            _, h = self.last(x)
            return self.head(h[-1])

    return Classifier()


@case(f32(2, 3), f32(2, 4), unfaithful="is no Python: aten::unsafe_chunk")
def recurrent_cells():
    """Cells are traced into their arithmetic."""

    class Cells(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTMCell(3, 4)
            self.gru = nn.GRUCell(3, 4)
            self.rnn = nn.RNNCell(3, 4)

        def forward(self, x, h):
            h1, c1 = self.lstm(x, (h, h * 0.5))
            h2, c2 = self.lstm(x * 0.5, (h1, c1))
            return h2, c2, self.gru(x, h), self.rnn(x, h)

    return Cells()
