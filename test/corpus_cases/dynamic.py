# SPDX-License-Identifier: MIT
"""Graphs that are right at more than one input size: every case here comes as a pair, NAME and NAME@2."""
import torch
import torch.nn.functional as F
from torch import nn

from .kit import boolean, case, f32, integers


@case(f32(1, 3, 8, 10), second=[f32(2, 3, 11, 7)])
def traced_any_size():
    """Nothing in this graph depends on the size: the plain trace does for all of them."""
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(6, 6, 3, padding=1, groups=6), nn.SiLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 4),
    )  # fmt: skip


@case(f32(2, 5), second=[f32(7, 5)])
def traced_any_batch():
    return nn.Sequential(nn.Linear(5, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 3), nn.Softmax(-1))


@case(f32(1, 4, 6), second=[f32(3, 4, 9)], symbolic=True)
def sizes_in_reshape():
    def body(x):
        batch, channels, length = x.shape
        return (
            x.reshape(batch * channels, length),
            x.view(batch, 2, 2, length).transpose(1, 2).reshape(batch, channels, length),
            x.reshape(batch, -1),
            x.reshape(batch, channels * length // 2, 2),
        )

    return body


@case(
    f32(1, 4, 6, 5),
    second=[f32(2, 4, 3, 9)],
    symbolic=True,
    unfaithful="the rendering calls torch.pow with two numbers",
)
def sizes_as_numbers():
    def body(x):
        height, width = x.shape[2], x.shape[3]
        return x * (height * width) ** -0.5, x / height + width, x - (height + 1) // 2, x.flatten(2).sum(-1) / (
            height * width)

    return body


@case(f32(1, 2, 6), second=[f32(1, 2, 9)], symbolic=True)
def sizes_in_expand():
    class Wide(nn.Module):
        def __init__(self):
            super().__init__()
            self.token = nn.Parameter(torch.randn(1, 2, 1))

        def forward(self, x):
            wide = self.token.expand(1, 2, x.size(2))
            return x + wide, torch.cat((self.token.expand(x.shape[0], -1, -1), x), 2)

    return Wide()


@case(f32(2, 7, 4), second=[f32(3, 5, 4)], symbolic=True)
def sizes_in_arange():
    class Positions(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(12, 4)

        def forward(self, x):
            positions = torch.arange(x.size(1))
            angles = positions.float().unsqueeze(1) * torch.tensor([1.0, 0.1, 0.01, 0.001])
            return x + self.table(positions), x * torch.sin(angles), torch.arange(2, 2 * x.size(1), 2) + 1

    return Positions()


@case(f32(1, 3, 4, 5), f32(1, 3, 9, 8), second=[f32(1, 3, 6, 3), f32(1, 3, 7, 10)], symbolic=True)
def sizes_in_interpolate():
    """A feature map is resized to another's size, as in feature pyramids."""

    def body(x, y):
        return (
            F.interpolate(x, size=y.shape[2:], mode="nearest") + y,
            F.interpolate(x, size=y.shape[2:], mode="bilinear", align_corners=False) * y,
        )

    return body


@case(f32(2, 9, 3), second=[f32(2, 12, 3)], symbolic=True)
def sizes_in_slices():
    """Bounds that come from sizes; constant bounds along an axis of unknown size are what pnnx loses."""

    def body(x):
        half = x.size(1) // 2
        return x[:, :half], x[:, half:], x[:, half - 1 : half + 2], x[:, x.size(1) - 2 :]

    return body


@case(f32(2, 4), second=[f32(5, 4)], symbolic=True)
def sizes_in_creation():
    def body(x):
        count = x.size(0)
        return (
            x + torch.zeros(count, 4),
            x * torch.ones(count, 1),
            torch.full((count, 2), 1.5) + x[:, :2],
            x.new_zeros(count, 3) + 1,
            torch.cat((x.new_ones(count, 1), x), 1),
        )

    return body


@case(f32(1, 6, 8), second=[f32(2, 11, 8)], symbolic=True)
def attention_any_length():
    class Causal(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = nn.Linear(8, 24)
            self.out = nn.Linear(8, 8)

        def forward(self, x):
            batch, length, _ = x.shape
            q, k, v = self.qkv(x).chunk(3, -1)
            q, k, v = (t.view(batch, length, 2, 4).transpose(1, 2) for t in (q, k, v))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.out(y.transpose(1, 2).reshape(batch, length, 8))

    return Causal()


@case(f32(1, 5, 12), second=[f32(3, 9, 12)])
def attention_module_any_length():
    class Plain(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = nn.MultiheadAttention(12, 3, batch_first=True)

        def forward(self, x):
            return self.attention(x, x, x, need_weights=False)[0]

    return Plain()


@case(f32(1, 8, 4, 6), second=[f32(2, 8, 5, 3)], symbolic=True)
def shuffle_any_size():
    def body(x):
        batch, channels, height, width = x.shape
        y = x.view(batch, 2, channels // 2, height, width).transpose(1, 2).contiguous()
        return y.view(batch, channels, height, width) + 1

    return body


@case(f32(1, 2, 5, 7), second=[f32(1, 2, 8, 6)], symbolic=True)
def pad_to_multiple():
    """Pads each side up to a multiple of four, by amounts computed from the sizes."""

    def body(x):
        height, width = x.shape[2:]
        return F.pad(x, (0, (4 - width % 4) % 4, 0, (4 - height % 4) % 4))

    return body


@case(f32(6), boolean(6), second=[f32(9), boolean(9)], symbolic=True, by_value=True)
def sizes_from_data():
    def body(x, mask):
        return torch.masked_select(x, mask) * 2

    return body


@case(integers(1, 4, high=20), second=[integers(2, 7, high=20)], symbolic=True)
def words_any_length():
    class Words(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(20, 6)
            self.places = nn.Embedding(10, 6)
            self.mix = nn.Linear(6, 20)

        def forward(self, tokens):
            places = torch.arange(tokens.size(1)).unsqueeze(0)
            return self.mix(torch.relu(self.words(tokens) + self.places(places)))

    return Words()


@case(
    f32(2, 4),
    second=[f32(5, 4)],
    symbolic=True,
    unfaithful="the rendering cannot call aten::new_full, which pnnx leaves where sizes are symbolic",
)
def new_full_any_size():
    def body(x):
        whole = x.new_full((3,), 7, dtype=torch.int64)
        return x.new_full((2, 4), 1.5) + x.sum(0), x.new_full((x.size(0), 1), -2) * x, whole

    return body
