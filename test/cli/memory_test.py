#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a model takes of memory: the report of `oort bench` against what the system counts for the process."""
import random
import unittest
import zipfile

from cli_test import DIGITS, RELU, Case

SLACK = 384 << 10  # what a thread, the allocator and the reader of files keep, whatever the model


def network(channels, blocks, classes=1000, size=28):
    """Convolutions of all kinds and a product at the end: the .param, and how many floats each attribute has."""
    lines, counts, operand = [], {}, 0

    def add(kind, name, shape, weights=(), **params):
        nonlocal operand
        for attribute, extents in weights:
            counts[f"{name}.{attribute}"] = 1
            for extent in extents:
                counts[f"{name}.{attribute}"] *= extent
        texts = [f"{key}={value}" for key, value in params.items()]
        texts += [f"@{attribute}=({','.join(map(str, extents))})f32" for attribute, extents in weights]
        texts.append(f"#{operand + 1}=({','.join(map(str, shape))})f32")
        lines.append(f"{kind} {name} 1 1 {operand} {operand + 1} {' '.join(texts)}")
        operand += 1

    def convolution(name, inputs, outputs, kernel, groups=1):
        window = f"({kernel},{kernel})"
        padding = f"({kernel // 2},{kernel // 2})"
        add(
            "nn.Conv2d", name, (1, outputs, size, size),
            [("weight", (outputs, inputs // groups, kernel, kernel)), ("bias", (outputs,))],
            bias=True, dilation="(1,1)", groups=groups, in_channels=inputs, kernel_size=window, out_channels=outputs,
            padding=padding, padding_mode="zeros", stride="(1,1)",
        )  # fmt: skip

    convolution("stem", 3, channels, 3)
    for i in range(blocks):
        convolution(f"b{i}.wide", channels, 2 * channels, 1)
        convolution(f"b{i}.each", 2 * channels, 2 * channels, 3, groups=2 * channels)
        convolution(f"b{i}.narrow", 2 * channels, channels, 1)
        convolution(f"b{i}.full", channels, channels, 3)
        add("nn.ReLU", f"b{i}.act", (1, channels, size, size))
    add("nn.AdaptiveAvgPool2d", "pool", (1, channels, 1, 1), output_size="(1,1)")
    add("torch.flatten", "flat", (1, channels), start_dim=1, end_dim=-1)
    add("nn.Linear", "head", (1, classes), [("weight", (classes, channels)), ("bias", (classes,))],
        bias=True, in_features=channels, out_features=classes)  # fmt: skip
    head = ["7767517", f"{len(lines) + 2} {operand + 1}", f"pnnx.Input pnnx_input_0 0 1 0 #0=(1,3,{size},{size})f32"]
    return "\n".join(head + lines + [f"pnnx.Output pnnx_output_0 1 0 {operand}", ""]), counts


class MemoryTest(Case):
    def model(self, name, *arguments):
        param, counts = network(*arguments)
        path = self.write(f"{name}.pnnx.param", param)
        noise = random.Random(1)
        with zipfile.ZipFile(self.dir / f"{name}.pnnx.bin", "w", zipfile.ZIP_STORED) as weights:
            for attribute, count in counts.items():
                # Any finite floats: two bytes of a small one, again and again.
                weights.writestr(attribute, bytes([noise.randrange(256), noise.randrange(256), 0, 0x3C]) * count)
        return path

    def check(self, planned, measured, what):
        self.assertLess(abs(measured - planned), 0.05 * planned + SLACK,
                        f"{what}: planned {planned}, measured {measured}")

    def report(self, path, *options):
        return self.json("bench", path, "--runs", 2, "--warmup", 1, *options)["memory"]

    def check_model(self, path, *options):
        memory = self.report(path, *options)
        parts = ("weights", "structures", "arena", "outputs", "inputs")
        self.assertEqual(memory["planned"], sum(memory[part] for part in parts))
        self.assertGreaterEqual(memory["planned_peak"], memory["planned"])
        self.check(memory["planned"], memory["resident"], f"{path} {options}")
        self.check(memory["planned_peak"], memory["peak"], f"{path} {options} at most")
        return memory

    def test_reports_are_true(self):
        for arguments in ((32, 1), (64, 3), (256, 2)):
            model = self.model("-".join(map(str, arguments)), *arguments)
            for threads in (1, 2):
                self.check_model(model, "--threads", threads)
        self.check_model(DIGITS, "--threads", 1)

    def test_system_says_the_same(self):
        """The same from outside, beside a model that takes nothing: the program itself counts on both sides."""
        model, small = self.model("m", 256, 2), self.write("small.pnnx.param", RELU)
        options = ("--threads", 1, "--runs", 2, "--warmup", 1)
        grown = self.peak_bytes("bench", model, *options) - self.peak_bytes("bench", small, *options)
        self.check(self.report(model, *options[:2])["planned_peak"], grown, "beside a small one")


if __name__ == "__main__":
    unittest.main()
