# SPDX-License-Identifier: MIT
"""Networks of other float dtypes than f32. pnnx takes no input of 16 bits, but weights of 16 bits."""
import torch
import torch.nn.functional as F
import torchvision
from torch import nn

from .kit import Each, case, f64, integers


@case(f64(2, 4, 9))
def convolutions_in_f64():
    class Convolutions(nn.Module):
        def __init__(self):
            super().__init__()
            self.padded = nn.Conv1d(4, 6, 3, padding=2, padding_mode="circular", groups=2)
            self.transposed = nn.ConvTranspose1d(6, 4, 3, stride=2, groups=2)
            self.volume = nn.Conv3d(2, 3, 2, dilation=(1, 2, 1))
            self.transposed_volume = nn.ConvTranspose3d(3, 2, (1, 2, 2), stride=2, output_padding=1)

        def forward(self, x):
            x = self.transposed(self.padded(x))
            x = x[..., :18].reshape(2, 2, 2, 6, 3)
            x = self.transposed_volume(self.volume(x))
            return x, F.conv2d(x[:, :, 0], x[:, :, 1, :2, :2].mean(0, keepdim=True))

    return Convolutions().double()


@case(f64(1, 4, 6, 7), f64(1, 18, 6, 7), f64(1, 9, 6, 7))
def deformed_convolution_in_f64():
    class Deformed(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = torchvision.ops.DeformConv2d(4, 5, 3, padding=1)

        def forward(self, x, offset, mask):
            return self.conv(x, offset, mask)

    return Deformed().double()


@case(f64(2, 5, 6))
def sequences_in_f64():
    class Sequences(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(6, 8, num_layers=2, proj_size=3, bidirectional=True, batch_first=True)
            self.rnn = nn.RNN(6, 4, nonlinearity="relu", batch_first=True)
            self.query, self.key = nn.Linear(4, 4), nn.Linear(4, 4, bias=False)

        def forward(self, x):
            x, (h, c) = self.lstm(x)
            x = self.rnn(x)[0]
            y = F.scaled_dot_product_attention(self.query(x), self.key(x), x, is_causal=True)
            return y, h, c

    return Sequences().double()


@case(f64(2, 5, 8), unfaithful="the rendering has no name for the fused layer")
def transformer_encoder_in_f64():
    return nn.TransformerEncoderLayer(8, 2, 12, batch_first=True, activation="gelu").double()


def halves(dtype):
    """Numbers so short that sums of their products need no rounding, in whatever order and dtype."""

    class Halves(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(2, 3, 2)
            self.linear = nn.Linear(4, 2)
            for parameter in self.parameters():
                parameter.data = torch.randint(-1, 2, parameter.shape) / 2
            self.to(dtype)

        def forward(self, x):
            return self.linear(self.conv(x.to(dtype))).float()

    return Halves()


@case(integers(1, 2, 4, 5, low=0, high=3), unfaithful="the rendering meets f16 weights with f32 inputs")
def weights_in_f16():
    return halves(torch.float16)


@case(integers(1, 2, 4, 5, low=0, high=3), unfaithful="the rendering knows no bf16")
def weights_in_bf16():
    return halves(torch.bfloat16)


@case(integers(3, 4, low=-90, high=90, dtype=torch.int8), integers(4, 2, low=-90, high=90, dtype=torch.int8))
def products_of_integers():
    return Each(
        torch.matmul,
        lambda a, b: torch.addmm(a[:, :2], a, b, alpha=3, beta=-2),
        lambda a, b: torch.addmm(a[0, :2], a, b),
    )


@case(integers(1, 2, 6, 6, low=-9, high=9), integers(2, 3, 3, 3, low=-3, high=3), integers(3, 4, low=-9, high=9))
def integer_windows():
    def body(x, w, rows):
        return (
            F.avg_pool2d(x, 3, stride=2, padding=1),
            F.avg_pool1d(rows.unsqueeze(0), 2),
            F.lp_pool2d(x.int(), 2.0, 2),
            F.conv_transpose2d(x, w, stride=2),
            F.pairwise_distance(rows, rows.flip(0)),
            F.softsign(rows),
        )

    return body


@case(integers(2, 3, dtype=torch.int32, low=-9, high=9))
def integer_einsum():
    return lambda x: (torch.einsum("ij->j", x), torch.einsum("ij->ji", x), torch.einsum("ij,ij->i", x, x))
