#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`oort run` and `oort verify` from outside: inputs and results of all kinds, and what is told of those that do not
fit."""
import json
import re
import struct
import unittest

from cli_test import BROKEN_THRICE, CORPUS, Case, DIGITS, RELU, TWO_INPUTS, npy, png, read_npy


class RunTest(Case):
    def test_arrays_in_arrays_out(self):
        model = self.write("m.pnnx.param", RELU)
        x = self.write("x.npy", npy([-1, 2, -3, 4], (1, 4)))
        self.oort("run", model, "--input", x, "--output-dir", self.dir / "a" / "b")
        self.assertEqual(read_npy(self.dir / "a" / "b" / "out0.npy"), [0, 2, 0, 4])

    def test_option_before_the_model(self):
        model = self.write("m.pnnx.param", RELU)
        x = self.write("x.npy", npy([-1, 2, -3, 4], (1, 4)))
        self.oort("run", "--input", x, model)

    def test_inputs_by_name_and_order(self):
        model = self.write("m.pnnx.param", TWO_INPUTS)
        a = self.write("a.npy", npy([5, 6], (2,)))
        b = self.write("b.npy", npy([1, 1], (2,)))
        for inputs in ([a, b], [f"b={b}", f"a={a}"], [f"in1={b}", f"pnnx_input_0={a}"], [f"in1={b}", a]):
            self.oort("run", model, "--input", *inputs, "--output-dir", self.dir)
            self.assertEqual(read_npy(self.dir / "out0.npy"), [4, 5])
        self.fails("run", model, "--input", a, code=2, says="takes 2 inputs")
        self.fails("run", model, "--input", f"a={a}", f"a={b}", code=2)
        self.fails("run", model, "--input", a, f"foo={b}", code=2,
                   says="the model has no input 'foo'; it has: pnnx_input_0 (2)f32, pnnx_input_1")
        odd = self.write("odd=name.npy", npy([1, 1], (2,)))
        self.oort("run", model, "--input", a, odd)

    def test_an_input_of_another_rank_is_named(self):
        model = self.picture_model("(1,3,8,8)")
        pool = ("nn.MaxPool2d pool 1 1 0 1 ceil_mode=False dilation=(1,1) kernel_size=(2,2) padding=(0,0) "
                "return_indices=False stride=(2,2)")
        text = model.read_text().replace("F.relu relu 1 1 0 1", pool)
        model = self.write("pool.pnnx.param", text.replace("#1=(1,3,8,8)", "#1=(1,3,4,4)"))
        flat = self.write("x.npy", npy([0] * 64, (8, 8)))
        done = self.fails("run", model, "--input", flat,
                          says="input 'pnnx_input_0' is (8,8)f32, the model was traced with (1,3,8,8)f32")
        self.assertNotIn("channels_last", done.err)

    def test_doubles_become_floats(self):
        model = self.write("m.pnnx.param", RELU)
        x = self.write("x.npy", npy([-1, 2, -3, 4], (1, 4), "<f8"))
        self.assertEqual(self.json("run", model, "--input", x)["outputs"][0]["dtype"], "f32")

    def test_statistics(self):
        model = self.write("m.pnnx.param", RELU)
        x = self.write("x.npy", npy([-1, 2, float("nan"), 4], (1, 4)))
        self.assertIn("1 NaN", self.oort("run", model, "--input", x).out)
        output = self.json("run", model, "--input", x)["outputs"][0]
        self.assertEqual(output["shape"], [1, 4])
        self.assertEqual(output["statistics"]["max"], 4)
        self.assertEqual(output["statistics"]["mean"], 2)
        self.assertEqual(output["statistics"]["nan"], 1)

    def test_first_nan_is_found(self):
        model = self.write("m.pnnx.param", RELU)
        x = self.write("x.npy", npy([-1, 2, float("nan"), 4], (1, 4)))
        self.fails("run", model, "--input", x, "--check-nan", says="'relu'")

    def test_dump(self):
        model = self.write("m.pnnx.param", RELU)
        x = self.write("x.npy", npy([-1, 2, -3, 4], (1, 4)))
        self.oort("run", model, "--input", x, "--output-dir", self.dir, "--dump", "^re")
        self.assertEqual(read_npy(self.dir / "dump" / "relu.npy"), [0, 2, 0, 4])

    def test_classes(self):
        model = self.write("m.pnnx.param", RELU)
        x = self.write("x.npy", npy([0, 0.6931472, 0, 0], (1, 4)))
        labels = self.write("labels.txt", "cat\r\ndog\nowl\n")
        lines = self.oort("run", model, "--input", x, "--labels", labels, "--top-k", "2").out.splitlines()
        self.assertEqual(len(lines), 2)
        self.assertRegex(lines[0], r"1\.  dog +40\.0 %  █+")
        top = self.json("run", model, "--input", x, "--labels", labels)["top"][0]
        self.assertEqual([guess["label"] for guess in top], ["dog", "cat", "owl", "class 3"])
        self.assertAlmostEqual(top[0]["probability"], 0.4, places=5)
        self.fails("run", model, "--input", x, "--labels", "none.txt", says="cannot read 'none.txt': No such file")

    def picture_model(self, shape):
        return self.write(
            "p.pnnx.param",
            f"7767517\n3 2\npnnx.Input pnnx_input_0 0 1 0 #0={shape}f32\n"
            f"F.relu relu 1 1 0 1 $input=0 #0={shape}f32 #1={shape}f32\n"
            f"pnnx.Output pnnx_output_0 1 0 1 #1={shape}f32\n",
        )

    def run_picture(self, shape, picture, *arguments):
        model = self.picture_model(shape)
        self.oort("run", model, "--input", picture, "--output-dir", self.dir, *arguments)
        return read_npy(self.dir / "out0.npy")

    def assertNear(self, got, want):
        self.assertEqual(len(got), len(want))
        for a, b in zip(got, want):
            self.assertAlmostEqual(a, b, places=5)

    def test_pictures(self):
        picture = self.write("p.png", png(2, 1, lambda x, y: (255, 0, 51) if x == 0 else (0, 102, 255)))
        self.assertNear(self.run_picture("(1,3,1,2)", picture), [1, 0, 0, 0.4, 0.2, 1])
        self.assertNear(self.run_picture("(3,1,2)", picture), [1, 0, 0, 0.4, 0.2, 1])
        self.assertNear(self.run_picture("(1,3,?,?)", picture), [1, 0, 0, 0.4, 0.2, 1])
        gray = [0.299 + 0.114 * 0.2, 0.587 * 0.4 + 0.114]
        self.assertNear(self.run_picture("(1,1,1,2)", picture), gray)
        self.assertNear(self.run_picture("(1,1,1,2)", picture, "--invert"), [1 - x for x in gray])
        self.assertNear(self.run_picture("(1,3,1,1)", picture), [0.5, 0.2, 0.6])
        # Twice as wide: torch's and PIL's bilinear without aligned corners.
        red = self.run_picture("(1,3,1,4)", picture)[:4]
        self.assertNear(red, [1, 0.75, 0.25, 0])
        normalized = self.run_picture("(1,3,1,2)", picture, "--mean", "0,0.4,0.1", "--std", "0.5,1,0.1")
        self.assertNear(normalized, [2, 0, 0, 0, 1, 9])

    def test_what_is_for_pictures_alone(self):
        model = self.picture_model("(1,4)")
        x = self.write("x.npy", npy([-1, 2, -3, 4], (1, 4)))
        for option in (["--mean", "0.5"], ["--std", "2"], ["--invert"]):
            self.fails("run", model, "--input", x, *option, code=2, says="for pictures")

    def test_other_formats(self):
        ppm = self.write("p.ppm", b"P6 2 1 255\n" + bytes([255, 0, 51, 0, 102, 255]))
        self.assertNear(self.run_picture("(1,3,1,2)", ppm), [1, 0, 0, 0.4, 0.2, 1])
        pgm = self.write("p.pgm", b"P5 2 1 255\n" + bytes([255, 51]))
        self.assertNear(self.run_picture("(1,1,1,2)", pgm), [1, 0.2])

    def test_bad_inputs_are_1(self):
        model = self.picture_model("(1,3,2,2)")
        whole = png(2, 2, lambda x, y: (1, 2, 3))
        for name, content in {
            "text.txt": b"hello",
            "empty.png": b"",
            "cut.png": whole[:50],
            "huge.png": whole[:16] + struct.pack(">II", 30000, 30000) + whole[24:],
            "cut.npy": npy([1, 2], (2,))[:20],
        }.items():
            self.fails("run", model, "--input", self.write(name, content))
        self.fails("run", model, "--input", "none.png", says="none.png")
        self.fails("run", self.picture_model("(1,5,2,2)"), "--input", self.write("p.png", whole), says="5 channels")
        self.fails("run", self.picture_model("(7)"), "--input", self.write("p.png", whole), says="(7)")


class VerifyTest(Case):
    def test_a_case_passes(self):
        case = self.relu_case("good", [0, 2, float("nan"), 4])
        lines = self.oort("verify", case).out.splitlines()
        self.assertRegex(lines[0], r"\Aok   good  max_abs 0 ")
        self.assertEqual(lines[-1], "1 passed, 0 failed")

    def test_failures(self):
        self.relu_case("value", [0, 2.1, float("nan"), 4])
        self.relu_case("nan", [0, 2, 3, 4])
        self.relu_case("shape", [0, 2, float("nan"), 4], (4,))
        self.relu_case("close", [0, 2.001, float("nan"), 4])
        self.relu_case("absent", [0, 2, 3, 4])
        (self.dir / "absent" / "out0.npy").unlink()
        lines = self.oort("verify", self.dir, code=1).out.splitlines()
        self.assertEqual(len(lines), 6)
        found = {line.split()[1]: line for line in lines[:-1]}
        self.assertEqual(list(found), sorted(found))
        self.assertTrue(found["close"].startswith("ok   "))
        self.assertRegex(found["value"], r"FAIL value +out0\[0,1\] is 2, expected 2\.0999\d+ \(1 of 4")
        self.assertRegex(found["nan"], r"FAIL nan +out0\[0,2\] is nan, expected 3")
        self.assertIn("(1,4)f32, expected (4)f32", found["shape"])
        self.assertIn("out0.npy", found["absent"])
        self.assertEqual(lines[-1], "1 passed, 4 failed")
        self.oort("verify", self.dir / "value", "--atol", "0.2")
        self.oort("verify", self.dir / "value", "--rtol", "0.1")
        self.oort("verify", self.dir / "close", "--rtol", "0", "--atol", "1e-6", code=1)

    def test_a_precision_below_f32_tells_what_it_costs(self):
        case = CORPUS / "conv2d_batch"
        line = self.oort("verify", case, "--precision", "bf16", notes=True).out.splitlines()[0]
        cost = float(re.search(r"  from_f32 (\S+)\Z", line).group(1))
        self.assertGreater(cost, 1e-5)
        self.assertLess(cost, 0.02)
        found = json.loads(self.oort("verify", case, "--precision", "bf16", "--json", notes=True).out)
        self.assertAlmostEqual(found["cases"][0]["from_f32"], cost, delta=1e-3 * cost + 1e-6)
        self.assertNotIn("from_f32", self.oort("verify", case).out)
        self.oort("verify", case, "--precision", "bf16", "--rtol", "1e-6", "--atol", "1e-6", code=1)

    def test_auto_takes_what_loses_little(self):
        for error in ("", ":0.01", ":0"):
            done = self.oort("bench", DIGITS, "--runs", "1", "--precision", "auto" + error, "--json", notes=True)
            chosen = json.loads(done.out)["precision"]
            self.assertRegex(done.err, rf"\Aprecision auto: {chosen} \(f32 [^\n]+of the largest output\)\n\Z")
        self.assertEqual(chosen, "f32")
        line = self.oort("verify", CORPUS / "conv2d_batch", "--precision", "auto", notes=True).out.splitlines()[0]
        self.assertTrue(line.startswith("ok"), line)
        self.fails("bench", DIGITS, "--precision", "auto:2", code=2, says="from 0 to 1")
        self.fails("bench", DIGITS, "--precision", "auto:", code=2, says="from 0 to 1")

    def test_a_precision_without_units_says_so(self):
        lesser = {"OORT_CPU_WITHOUT": "amx,avx512,arm"}
        done = self.oort("bench", DIGITS, "--runs", "1", "--precision", "bf16", env=lesser, notes=True)
        self.assertRegex(done.err, r"\Aoort: note: [^\n]*no units for bf16[^\n]*slower[^\n]*\n\Z")
        done = self.oort("bench", DIGITS, "--runs", "1", "--precision", "auto", env=lesser, notes=True)
        self.assertRegex(done.err, r"\Aprecision auto: f32 \(f32 [^,\n]+\)\n\Z")

    def test_f16_tells_what_it_costs_where_the_processor_has_it(self):
        if "f16 vectors" not in self.oort("devices").out:
            self.skipTest("no f16 arithmetic")
        line = self.oort("verify", CORPUS / "conv2d_batch", "--precision", "f16").out.splitlines()[0]
        cost = float(re.search(r"  from_f32 (\S+)\Z", line).group(1))
        self.assertGreater(cost, 1e-6)
        self.assertLess(cost, 0.004)

    def test_nothing_there(self):
        self.assertEqual(self.oort("verify", self.dir / "none", code=1).out.splitlines()[-1], "0 passed, 1 failed")
        self.assertEqual(self.oort("verify", self.dir, code=1).out.splitlines()[-1], "0 passed, 1 failed")

    def test_unsupported_is_skipped_on_demand(self):
        self.relu_case("good", [0, 2, float("nan"), 4])
        self.write("odd/model.pnnx.param", BROKEN_THRICE)
        lines = self.oort("verify", self.dir, "--skip-unsupported").out.splitlines()
        self.assertEqual(lines[-1], "1 passed, 0 failed, 1 skipped")
        self.assertRegex(lines[1], r"skip odd +unsupported: F.rellu, my.Unknown")
        self.assertEqual(self.oort("verify", self.dir, code=1).out.splitlines()[-1], "1 passed, 1 failed")

    def test_jobs_and_json(self):
        for i in range(7):
            self.relu_case(f"case{i}", [0, 2 + (i == 3), float("nan"), 4])
        result = self.json("verify", self.dir, "--jobs", "3", code=1)
        self.assertEqual((result["passed"], result["failed"]), (6, 1))
        self.assertEqual([case["name"] for case in result["cases"]], [f"case{i}" for i in range(7)])
        self.assertEqual(result["cases"][3]["status"], "failed")

    def test_inputs_with_a_gap(self):
        """pnnx may drop an unused input: in1.npy then belongs to pnnx_input_1, the only one."""
        self.write("gap/model.pnnx.param", RELU.replace("pnnx_input_0", "pnnx_input_1"))
        self.write("gap/in0.npy", npy([9, 9, 9, 9], (1, 4)))
        self.write("gap/in1.npy", npy([-1, 2, 3, 4], (1, 4)))
        self.write("gap/out0.npy", npy([0, 2, 3, 4], (1, 4)))
        self.oort("verify", self.dir / "gap")


if __name__ == "__main__":
    unittest.main()
