# SPDX-License-Identifier: MIT
"""Whole networks, as small as they go: the shapes of the real ones with a few channels."""
import torch
import torch.nn.functional as F
import yolo_style
from torch import nn

from .kit import case, f32, f64


class Residual(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.down = None
        if stride != 1:
            self.down = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + (x if self.down is None else self.down(x)))


def lively(net):
    """Weights that keep the signal's size without batch norms."""
    for module in net.modules():
        if isinstance(module, (nn.Conv2d, nn.Linear)):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
    return net


def residual_net():
    return nn.Sequential(
        nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1),
        Residual(8, 8, 1), Residual(8, 16, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10),
    )  # fmt: skip


@case(f32(1, 3, 32, 32), second=[f32(2, 3, 40, 25)], calibrate=True)
def mini_resnet():
    return residual_net()


@case(f32(2, 3, 24, 24), optlevel=1, calibrate=True)
def mini_resnet_batch_norms_apart():
    return residual_net()


class Inverted(nn.Module):
    """Expand, depthwise, squeeze-and-excite, project: mobilenet v3's block, with v2's and efficientnet's as options."""

    def __init__(self, inputs, wide, outputs, kernel, stride, act, gate):
        super().__init__()
        self.expand = nn.Sequential(nn.Conv2d(inputs, wide, 1, bias=False), nn.BatchNorm2d(wide), act())
        self.depth = nn.Sequential(
            nn.Conv2d(wide, wide, kernel, stride, kernel // 2, groups=wide, bias=False), nn.BatchNorm2d(wide), act()
        )
        self.gate = None
        if gate is not None:
            self.gate = nn.Sequential(
                nn.AdaptiveAvgPool2d(1), nn.Conv2d(wide, 4, 1), nn.ReLU(), nn.Conv2d(4, wide, 1), gate()
            )
        self.project = nn.Sequential(nn.Conv2d(wide, outputs, 1, bias=False), nn.BatchNorm2d(outputs))
        self.add = stride == 1 and inputs == outputs

    def forward(self, x):
        y = self.depth(self.expand(x))
        if self.gate is not None:
            y = y * self.gate(y)
        y = self.project(y)
        return x + y if self.add else y


@case(f32(1, 3, 32, 32), second=[f32(1, 3, 25, 38)], calibrate=True)
def mini_mobilenet():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.Hardswish(),
        Inverted(8, 16, 8, 3, 1, nn.ReLU6, None), Inverted(8, 16, 8, 5, 1, nn.Hardswish, nn.Hardsigmoid),
        Inverted(8, 24, 12, 3, 2, nn.SiLU, nn.Sigmoid), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2),
        nn.Linear(12, 10),
    )  # fmt: skip


class Shuffle(nn.Module):
    def __init__(self, channels):
        super().__init__()
        half = channels // 2
        self.branch = nn.Sequential(
            nn.Conv2d(half, half, 1), nn.ReLU(), nn.Conv2d(half, half, 3, 1, 1, groups=half), nn.Conv2d(half, half, 1)
        )

    def forward(self, x):
        left, right = x.chunk(2, dim=1)
        y = torch.cat((left, self.branch(right)), dim=1)
        batch, channels, height, width = y.shape
        y = y.view(batch, 2, channels // 2, height, width).transpose(1, 2).contiguous()
        return y.view(batch, channels, height, width)


@case(f32(1, 3, 24, 24), second=[f32(1, 3, 30, 17)], calibrate=True)
def mini_shufflenet():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem = nn.Sequential(nn.Conv2d(3, 12, 3, 2, 1), nn.BatchNorm2d(12), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
            self.stages = nn.Sequential(Shuffle(12), Shuffle(12))
            self.head = nn.Linear(12, 10)

        def forward(self, x):
            return self.head(self.stages(self.stem(x)).mean([2, 3]))

    return Net()


@case(f32(1, 3, 24, 24), second=[f32(1, 3, 19, 33)], calibrate=True)
def mini_densenet():
    class Dense(nn.Module):
        def __init__(self, inputs, growth):
            super().__init__()
            self.layers = nn.ModuleList(
                nn.Sequential(nn.BatchNorm2d(inputs + i * growth), nn.ReLU(),
                              nn.Conv2d(inputs + i * growth, growth, 3, 1, 1))
                for i in range(3)
            )

        def forward(self, x):
            parts = [x]
            for layer in self.layers:
                parts.append(layer(torch.cat(parts, 1)))
            return torch.cat(parts, 1)

    return nn.Sequential(
        nn.Conv2d(3, 6, 3, 2, 1), Dense(6, 4), nn.BatchNorm2d(18), nn.ReLU(), nn.Conv2d(18, 8, 1), nn.AvgPool2d(2),
        Dense(8, 4), nn.AdaptiveAvgPool2d((1, 1)), nn.Flatten(), nn.Linear(20, 10),
    )  # fmt: skip


@case(f32(1, 3, 32, 32), calibrate=True)
def mini_googlenet():
    class Inception(nn.Module):
        def __init__(self, inputs):
            super().__init__()
            self.one = nn.Conv2d(inputs, 4, 1)
            self.three = nn.Sequential(nn.Conv2d(inputs, 4, 1), nn.ReLU(), nn.Conv2d(4, 6, 3, padding=1))
            self.five = nn.Sequential(nn.Conv2d(inputs, 2, 1), nn.ReLU(), nn.Conv2d(2, 4, 5, padding=2))
            self.pool = nn.Sequential(nn.MaxPool2d(3, 1, 1, ceil_mode=True), nn.Conv2d(inputs, 2, 1))

        def forward(self, x):
            return F.relu(torch.cat([self.one(x), self.three(x), self.five(x), self.pool(x)], 1))

    return nn.Sequential(
        nn.Conv2d(3, 8, 7, 2, 3), nn.ReLU(), nn.MaxPool2d(3, 2, ceil_mode=True), Inception(8), Inception(16),
        nn.MaxPool2d(3, 2, ceil_mode=True), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10),
    )  # fmt: skip


@case(f32(1, 3, 33, 33))
def mini_squeezenet():
    class Fire(nn.Module):
        def __init__(self, inputs, squeeze, expand):
            super().__init__()
            self.squeeze = nn.Conv2d(inputs, squeeze, 1)
            self.one = nn.Conv2d(squeeze, expand, 1)
            self.three = nn.Conv2d(squeeze, expand, 3, padding=1)

        def forward(self, x):
            x = F.relu(self.squeeze(x))
            return torch.cat([F.relu(self.one(x)), F.relu(self.three(x))], 1)

    net = nn.Sequential(
        nn.Conv2d(3, 8, 3, 2), nn.ReLU(), nn.MaxPool2d(3, 2, ceil_mode=True), Fire(8, 4, 6), Fire(12, 4, 8),
        nn.Conv2d(16, 10, 1), nn.ReLU(), nn.AdaptiveAvgPool2d((1, 1)), nn.Flatten(),
    )  # fmt: skip
    return lively(net)


@case(f32(1, 3, 32, 32))
def mini_vgg():
    net = nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2, 2), nn.Conv2d(6, 8, 3, padding=1), nn.ReLU(),
        nn.MaxPool2d(2, 2), nn.AdaptiveAvgPool2d((3, 3)), nn.Flatten(), nn.Linear(72, 24), nn.ReLU(), nn.Dropout(),
        nn.Linear(24, 10),
    )  # fmt: skip
    return lively(net)


@case(f32(1, 3, 32, 32))
def mini_vit():
    class Block(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.norm1 = nn.LayerNorm(width, eps=1e-6)
            self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
            self.norm2 = nn.LayerNorm(width, eps=1e-6)
            self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

        def forward(self, x):
            y = self.norm1(x)
            x = x + self.attention(y, y, y, need_weights=False)[0]
            return x + self.mlp(self.norm2(x))

    class Net(nn.Module):
        def __init__(self, width=16):
            super().__init__()
            self.patches = nn.Conv2d(3, width, 8, 8)
            self.token = nn.Parameter(torch.randn(1, 1, width) * 0.2)
            self.places = nn.Parameter(torch.randn(1, 17, width) * 0.2)
            self.blocks = nn.Sequential(Block(width), Block(width))
            self.norm = nn.LayerNorm(width, eps=1e-6)
            self.head = nn.Linear(width, 10)

        def forward(self, x):
            x = self.patches(x).reshape(x.shape[0], 16, -1).permute(0, 2, 1)
            x = torch.cat((self.token.expand(x.shape[0], -1, -1), x), 1) + self.places
            return self.head(self.norm(self.blocks(x))[:, 0])

    return Net()


@case(f32(1, 3, 32, 64), calibrate=True)
def mini_yolo():
    return yolo_style.Detector(0.1, 0.01, classes=2, multiple=4)


@case(f32(1, 3, 32, 64), second=[f32(1, 3, 64, 32)], symbolic=True, calibrate=True)
def mini_yolo_any_size():
    return yolo_style.Detector(0.1, 0.01, classes=2, multiple=4)


@case(f32(1, 3, 32, 64), calibrate=True)
def mini_yolo_older():
    return yolo_style.Detector(0.1, 0.01, classes=2, multiple=4, older=True)


@case(f32(1, 3, 16, 24), second=[f32(1, 3, 20, 28)], calibrate=True)
def mini_unet():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.down = nn.Sequential(nn.Conv2d(3, 6, 3, 2, 1), nn.GroupNorm(2, 6), nn.SiLU())
            self.deep = nn.Sequential(nn.Conv2d(6, 8, 3, 2, 1), nn.LeakyReLU(0.1))
            self.up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False)
            self.mix = nn.Conv2d(14, 6, 3, padding=1)
            self.out = nn.Sequential(nn.Conv2d(6, 4, 1), nn.PixelShuffle(2))

        def forward(self, x):
            a = self.down(x)
            return torch.sigmoid(self.out(F.relu(self.mix(torch.cat((self.up(self.deep(a)), a), 1)))))

    return Net()


@case(f64(2, 3, 8, 6))
def network_in_f64():
    class Doubles(nn.Module):
        def __init__(self):
            super().__init__()
            self.front = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(),
                                       nn.ConvTranspose2d(4, 2, 2))
            self.recurrent = nn.GRU(14, 6, batch_first=True)
            self.attention = nn.MultiheadAttention(6, 2, batch_first=True)
            self.norm = nn.LayerNorm(6)
            self.back = nn.Linear(6, 5)

        def forward(self, x):
            x = self.front(x).transpose(1, 2).flatten(2)
            x = self.recurrent(x)[0]
            return self.back(self.norm(x + self.attention(x, x, x, need_weights=False)[0])).softmax(-1)

    return Doubles().double()
