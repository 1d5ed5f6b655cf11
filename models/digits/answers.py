#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Asks torch what the network in this folder makes of the drawn digits, for the tests to compare with.

    python3 models/digits/answers.py [--folder DIR]         after draw.py or train.py

    drawn/out0.npy             torch's logits for drawn/in0.npy
    drawn.json                 how many of them torch gets right
    case/in0.npy out0.npy      the first ten for `oort verify models/digits/case`: f32 in 0…1, and their logits

The graph and the weights are read from the files that Oort loads, by zipfile and torch alone: no part of Oort is in it.
"""
import argparse
import json
import os
import zipfile

import numpy as np
import torch
from torch.nn import functional

HERE = os.path.dirname(os.path.abspath(__file__))
CASE = 10  # pictures


class PnnxNet:
    """Runs the few operators that a digits network consists of."""

    def __init__(self, folder):
        with open(os.path.join(folder, "digits.pnnx.param")) as file:
            self.operators = [line.split() for line in file.read().splitlines()[2:]]
        self.weights = zipfile.ZipFile(os.path.join(folder, "digits.pnnx.bin"))

    def weight(self, operator, key, parameters):
        shape, dtype = parameters["@" + key][1:].split(")")
        assert dtype == "f32", dtype
        data = np.frombuffer(self.weights.read(f"{operator}.{key}"), "<f4")
        return torch.from_numpy(data.reshape([int(extent) for extent in shape.split(",")]).copy())

    def apply(self, kind, name, parameters, inputs):
        def integers(key):
            return tuple(map(int, parameters[key].strip("()").split(",")))

        def weights():
            return [self.weight(name, key, parameters) for key in ("weight", "bias")]

        if kind == "nn.Conv2d":
            assert parameters["padding_mode"] == "zeros" and parameters["bias"] == "True"
            settings = [integers(key) for key in ("stride", "padding", "dilation")]
            return functional.conv2d(inputs[0], *weights(), *settings, groups=int(parameters["groups"]))
        if kind == "nn.Linear":
            return functional.linear(inputs[0], *weights())
        if kind == "F.relu":
            return functional.relu(inputs[0])
        if kind == "pnnx.Expression" and parameters["expr"] == "add(@0,@1)":
            return inputs[0] + inputs[1]
        if kind == "nn.AdaptiveAvgPool2d":
            return functional.adaptive_avg_pool2d(inputs[0], integers("output_size"))
        if kind == "torch.flatten":
            return torch.flatten(inputs[0], int(parameters["start_dim"]), int(parameters["end_dim"]))
        raise SystemExit(f"{kind} {name} is no operator of the digits network")

    @torch.no_grad()
    def __call__(self, x):
        operands = {}
        for kind, name, inputs, outputs, *rest in self.operators:
            inputs, outputs = int(inputs), int(outputs)
            parameters = dict(text.split("=", 1) for text in rest[inputs + outputs :])
            if kind == "pnnx.Input":
                operands[rest[0]] = x
            elif kind == "pnnx.Output":
                return operands[rest[0]]
            else:
                operands[rest[inputs]] = self.apply(kind, name, parameters, [operands[key] for key in rest[:inputs]])
        raise SystemExit("the network has no output")


def write(folder):
    """The answers of the network in `folder` to the drawings of this one."""
    pixels = np.load(os.path.join(HERE, "drawn", "in0.npy"))
    labels = torch.from_numpy(np.load(os.path.join(HERE, "drawn", "labels.npy")))
    x = torch.from_numpy(pixels).float() / 255
    logits = PnnxNet(folder)(x)
    answers = {
        "count": len(labels),
        "correct": int((logits.argmax(1) == labels).sum()),
        "torch": torch.__version__.split("+")[0],
    }
    with open(os.path.join(folder, "drawn.json"), "w") as file:
        file.write(json.dumps(answers, indent=2) + "\n")
    for name in ("drawn", "case"):
        os.makedirs(os.path.join(folder, name), exist_ok=True)
    np.save(os.path.join(folder, "drawn", "out0.npy"), logits.numpy())
    np.save(os.path.join(folder, "case", "in0.npy"), x[:CASE].numpy())
    np.save(os.path.join(folder, "case", "out0.npy"), logits[:CASE].numpy())
    for end in ("param", "bin"):
        link = os.path.join(folder, "case", f"digits.pnnx.{end}")
        if not os.path.lexists(link):
            os.symlink(os.path.join("..", f"digits.pnnx.{end}"), link)
    return answers


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--folder", default=HERE, metavar="DIR", help="where digits.pnnx.param is")
    print(json.dumps(write(parser.parse_args().folder)))


if __name__ == "__main__":
    main()
