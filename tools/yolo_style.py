# SPDX-License-Identifier: MIT
"""A one-stage detector of the YOLOv5 kind, written for Oort's tests: CSP backbone, SPPF, PAN neck, anchor heads,
decoding.

The depth and width of the network scale as in that family ("s" is depth 0.33, width 0.5). Weights are random.
Not a program: export-yolo.py and test/make_corpus.py import it.
"""
import torch
from torch import nn

STRIDES = (8, 16, 32)
ANCHORS = (
    ((10, 13), (16, 30), (33, 23)),
    ((30, 61), (62, 45), (59, 119)),
    ((116, 90), (156, 198), (373, 326)),
)


class Unit(nn.Module):
    """Convolution, batch norm, SiLU; same size at stride 1."""

    def __init__(self, inputs, outputs, kernel=1, stride=1, padding=None):
        super().__init__()
        padding = kernel // 2 if padding is None else padding
        self.conv = nn.Conv2d(inputs, outputs, kernel, stride, padding, bias=False)
        self.norm = nn.BatchNorm2d(outputs, eps=1e-3)
        self.act = nn.SiLU()

    def forward(self, x):
        return self.act(self.norm(self.conv(x)))


class Focus(nn.Module):
    """The older stem: every second pixel of every second row, four pictures of half the size side by side."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.unit = Unit(4 * inputs, outputs, 3)

    def forward(self, x):
        rows = x[..., ::2, :], x[..., 1::2, :]
        return self.unit(torch.cat([row[..., start::2] for start in (0, 1) for row in rows], 1))


class Bottleneck(nn.Module):
    def __init__(self, channels, shortcut):
        super().__init__()
        self.reduce = Unit(channels, channels, 1)
        self.expand = Unit(channels, channels, 3)
        self.shortcut = shortcut

    def forward(self, x):
        y = self.expand(self.reduce(x))
        return x + y if self.shortcut else y


class Stage(nn.Module):
    """The cross-stage block with three convolutions: one half goes through bottlenecks, the other around them."""

    def __init__(self, inputs, outputs, repeats, shortcut=True):
        super().__init__()
        half = outputs // 2
        self.through = Unit(inputs, half)
        self.around = Unit(inputs, half)
        self.blocks = nn.Sequential(*(Bottleneck(half, shortcut) for _ in range(repeats)))
        self.merge = Unit(2 * half, outputs)

    def forward(self, x):
        return self.merge(torch.cat((self.blocks(self.through(x)), self.around(x)), 1))


class PyramidPool(nn.Module):
    """Three max pools in a row, all four stages side by side: the fast form of spatial pyramid pooling."""

    def __init__(self, inputs, outputs, kernel=5):
        super().__init__()
        self.reduce = Unit(inputs, inputs // 2)
        self.merge = Unit(inputs * 2, outputs)
        self.pool = nn.MaxPool2d(kernel, stride=1, padding=kernel // 2)

    def forward(self, x):
        x = self.reduce(x)
        once = self.pool(x)
        twice = self.pool(once)
        return self.merge(torch.cat((x, once, twice, self.pool(twice)), 1))


class Heads(nn.Module):
    """One 1x1 convolution a level, then boxes in pixels of the input picture with objectness and class scores."""

    def __init__(self, channels, classes, by_slices=False):
        super().__init__()
        self.by_slices = by_slices
        self.classes = classes
        self.values = classes + 5
        self.anchors = len(ANCHORS[0])
        self.convs = nn.ModuleList(nn.Conv2d(c, self.values * self.anchors, 1) for c in channels)
        anchors = torch.tensor(ANCHORS, dtype=torch.float32)
        self.register_buffer("sizes", anchors.view(len(ANCHORS), 1, self.anchors, 1, 1, 2))

    def forward(self, levels):
        decoded = []
        for i, (conv, level) in enumerate(zip(self.convs, levels)):
            y = conv(level)
            batch, _, height, width = y.shape
            y = y.view(batch, self.anchors, self.values, height, width).permute(0, 1, 3, 4, 2)
            y = y.contiguous().sigmoid()
            if self.by_slices:
                xy, wh, scores = y[..., 0:2], y[..., 2:4], y[..., 4:]
            else:
                xy, wh, scores = y.split((2, 2, self.classes + 1), 4)
            xy = (xy * 2 + self.grid(height, width)) * STRIDES[i]
            wh = (wh * 2) ** 2 * self.sizes[i]
            y = torch.cat((xy, wh, scores), 4)
            decoded.append(y.view(batch, self.anchors * height * width, self.values))
        return torch.cat(decoded, 1)

    def grid(self, height, width):
        """(1, 1, height, width, 2): x and y of each cell's corner, half a cell back."""
        across = torch.arange(width).view(1, width).expand(height, width)
        down = torch.arange(height).view(height, 1).expand(height, width)
        return torch.stack((across, down), 2).view(1, 1, height, width, 2).float() - 0.5


class Detector(nn.Module):
    """older: with the slicing stem, and heads that take boxes apart by slices instead of a split.

    multiple: numbers of channels are rounded to it.
    """

    def __init__(self, depth=0.33, width=0.5, classes=80, older=False, multiple=8):
        super().__init__()

        def wide(channels):
            return max(int(channels * width / multiple + 0.5), 1) * multiple

        def deep(repeats):
            return max(round(repeats * depth), 1)

        c1, c2, c3, c4, c5 = (wide(c) for c in (64, 128, 256, 512, 1024))
        first = Focus(3, c1) if older else Unit(3, c1, 6, 2, 2)
        self.stem = nn.Sequential(first, Unit(c1, c2, 3, 2), Stage(c2, c2, deep(3)))
        self.to_p3 = nn.Sequential(Unit(c2, c3, 3, 2), Stage(c3, c3, deep(6)))
        self.to_p4 = nn.Sequential(Unit(c3, c4, 3, 2), Stage(c4, c4, deep(9)))
        self.to_p5 = nn.Sequential(Unit(c4, c5, 3, 2), Stage(c5, c5, deep(3)), PyramidPool(c5, c5))
        self.up = nn.Upsample(scale_factor=2, mode="nearest")
        self.side5 = Unit(c5, c4)
        self.mix4 = Stage(2 * c4, c4, deep(3), shortcut=False)
        self.side4 = Unit(c4, c3)
        self.mix3 = Stage(2 * c3, c3, deep(3), shortcut=False)
        self.down3 = Unit(c3, c3, 3, 2)
        self.out4 = Stage(2 * c3, c4, deep(3), shortcut=False)
        self.down4 = Unit(c4, c4, 3, 2)
        self.out5 = Stage(2 * c4, c5, deep(3), shortcut=False)
        self.heads = Heads((c3, c4, c5), classes, by_slices=older)

    def forward(self, image):
        p3 = self.to_p3(self.stem(image))
        p4 = self.to_p4(p3)
        side5 = self.side5(self.to_p5(p4))
        side4 = self.side4(self.mix4(torch.cat((self.up(side5), p4), 1)))
        out3 = self.mix3(torch.cat((self.up(side4), p3), 1))
        out4 = self.out4(torch.cat((self.down3(out3), side4), 1))
        out5 = self.out5(torch.cat((self.down4(out4), side5), 1))
        return self.heads((out3, out4, out5))
