#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the program `oort` as a user would. Needs nothing but the standard library.

    OORT=build/oort OORT_DEMOS=build/demos OORT_SOURCE=. test/cli/cli_test.py [CLASS …]
"""
import json
import os
import pathlib
import re
import struct
import subprocess
import tempfile
import unittest
import zlib

OORT = os.environ["OORT"]
DEMOS = pathlib.Path(os.environ["OORT_DEMOS"])
SOURCE = pathlib.Path(os.environ["OORT_SOURCE"]).resolve()
DIGITS = SOURCE / "models" / "digits"
CORPUS = SOURCE / "test" / "corpus"

RELU = """7767517
3 2
pnnx.Input pnnx_input_0 0 1 0 #0=(1,4)f32
F.relu relu 1 1 0 1 $input=0 #0=(1,4)f32 #1=(1,4)f32
pnnx.Output pnnx_output_0 1 0 1 #1=(1,4)f32
"""
TWO_INPUTS = """7767517
4 3
pnnx.Input pnnx_input_0 0 1 a #a=(2)f32
pnnx.Input pnnx_input_1 0 1 b #b=(2)f32
pnnx.Expression sum 2 1 a b c expr=sub(@0,@1) #a=(2)f32 #b=(2)f32 #c=(2)f32
pnnx.Output pnnx_output_0 1 0 c #c=(2)f32
"""
BROKEN_THRICE = """7767517
6 5
pnnx.Input pnnx_input_0 0 1 0 #0=(1,4,8)f32
my.Unknown first 1 1 0 1
my.Unknown second 1 1 1 2
F.max_pool1d pool 1 1 2 3 ceil_mode=False dilation=(1) kernel_size=(0) padding=(0) stride=(1) $input=2
F.rellu typo 1 1 3 4
pnnx.Output pnnx_output_0 1 0 4
"""


def npy(values, shape, descr="<f4"):
    """The bytes of a .npy file."""
    code = {"<f4": "f", "<f8": "d", "<i8": "q", "|b1": "?"}[descr]
    dims = "(" + "".join(f"{extent}," for extent in shape) + ")"
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {dims}, }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + struct.pack(
        f"<{len(values)}{code}", *values
    )


def read_npy(path):
    data = pathlib.Path(path).read_bytes()
    start = 10 + struct.unpack("<H", data[8:10])[0]
    return list(struct.unpack(f"<{(len(data) - start) // 4}f", data[start:]))


def png(width, height, pixel):
    """An RGB picture; pixel(x, y) gives three bytes."""
    rows = b"".join(
        b"\0" + b"".join(bytes(pixel(x, y)) for x in range(width)) for y in range(height)
    )

    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = pathlib.Path(folder.name)

    def write(self, name, content):
        path = self.dir / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def oort(self, *arguments, code=0, env=None, notes=False):
        done = subprocess.run(
            [OORT, *map(str, arguments)], capture_output=True, timeout=300, env={**os.environ, **(env or {})}
        )
        done.out, done.err = done.stdout.decode(), done.stderr.decode()
        self.assertEqual(done.returncode, code, f"{arguments}\n{done.out}\n{done.err}")
        if code == 0 and not notes:
            self.assertEqual(done.err, "")
        return done

    def fails(self, *arguments, code=1, says="", env=None):
        """Exactly one line on stderr, and nothing on stdout."""
        done = self.oort(*arguments, code=code, env=env)
        self.assertRegex(done.err, r"\Aoort: [^\n]+\n\Z")
        self.assertIn(says, done.err)
        self.assertEqual(done.out, "")
        return done

    def peak_bytes(self, *arguments):
        """What a run had in memory at most."""
        child = subprocess.Popen([OORT, *map(str, arguments)], stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(child.returncode, 0, arguments)
        return 1024 * usage.ru_maxrss

    def json(self, *arguments, code=0):
        return json.loads(self.oort(*arguments, "--json", code=code).out)

    def relu_case(self, name, expected, shape=(1, 4)):
        self.write(f"{name}/model.pnnx.param", RELU)
        self.write(f"{name}/in0.npy", npy([-1, 2, float("nan"), 4], (1, 4)))
        self.write(f"{name}/out0.npy", npy(expected, shape))
        return self.dir / name


class LogTest(Case):
    """A model whose second line counts an operand too many is read, with a warning."""

    def run_relu(self, *options, env=None):
        model = self.write("model.pnnx.param", RELU.replace("3 2", "3 3", 1))
        value = self.write("in0.npy", npy([-1, 2, 3, 4], (1, 4)))
        return subprocess.run([OORT, "run", model, "--input", value, *options], capture_output=True, timeout=60,
                              env={**os.environ, **(env or {})})

    def test_is_quiet_unless_asked(self):
        self.assertEqual(self.run_relu().stderr, b"")
        for done in (self.run_relu("--log-level", "warning"), self.run_relu(env={"OORT_LOG_LEVEL": "warning"})):
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(b"line 2 counts 3", done.stderr)
        self.assertEqual(self.run_relu("--log-level", "error").stderr, b"")

    def test_unknown_level(self):
        done = self.run_relu("--log-level", "loud")
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"--log-level", done.stderr)


class UsageTest(Case):
    def test_overview_and_help(self):
        overview = self.oort().out
        for command in "run verify info doctor bench profile convert operators devices limits".split():
            self.assertRegex(overview, rf"\n  {command} ")
            text = self.oort(command, "--help").out
            self.assertIn("Example", text)
        lines = self.oort("--version").out.splitlines()
        self.assertRegex(lines[0], r"\Aoort \d+\.\d+\.\d+\Z")
        self.assertEqual([line.split()[0] for line in lines[1:]],
                         ["kernels", "threads", "LAPACK", "log", "server", "CUDA"])
        facts = json.loads(self.oort("--version", "--json").out)
        self.assertEqual("oort " + facts["version"], lines[0])
        self.assertIn("scalar", facts["kernels"].split())
        self.assertIn(facts["glog"] or "none", lines[4])

    def test_wrong_usage_is_2(self):
        model = self.write("m.pnnx.param", RELU)
        for arguments in (
            ["nonsense"],
            ["run"],
            ["run", model, "--nonsense"],
            ["run", model, "extra"],
            ["run", model, "--threads", "many"],
            ["run", model, "--threads", "-1"],
            ["run", model, "--isa", "mmx"],
            ["run", model, "--precision", "tf32"],
            ["run", model, "--isa", "scalar", "--precision", "f16"],
            ["bench", model, "--precision", "half"],
            ["run", model],
            ["run", model, "--dump", "("],
            ["run", model, "--dump", "x", "--input", "x.npy"],
            ["run", model, "--input", "x.npy", "--std", "0"],
            ["verify"],
            ["verify", "x", "--jobs", "0"],
            ["bench", model, "--runs", "0"],
            ["bench", model, "--shape", "1,two"],
            ["bench", model, "--shape", "in7=1,2"],
            ["info", model, "--shape"],
            ["convert", model],
            ["convert", model, self.dir / "no-ending"],
            ["operators", "--json", "--markdown"],
        ):
            self.fails(*arguments, code=2)
        self.fails("nonsense", code=2, says="unknown command 'nonsense'; commands: run, verify")
        self.fails("genrate", code=2, says="unknown command 'genrate'; did you mean generate?")

    def test_a_slip_in_an_option_is_told_first(self):
        model = self.write("m.pnnx.param", RELU)
        for arguments, says in (
            (["generate", model, "--promt", "hi"],
             "unknown option --promt; did you mean --prompt? (see 'oort generate --help')"),
            (["run", model, "--inptu", "x.npy"], "unknown option --inptu; did you mean --input?"),
            (["run", model, "--thread=many"], "unknown option --thread; did you mean --threads?"),
            (["run", "--xyzzy"], "unknown option --xyzzy (see 'oort run --help')"),
            (["bench", model, "-q"], "unknown option -q"),
            (["serve", model, "--port", "99999"], "--port: Value 99999 not in range"),
            (["--helo"], "unknown option --helo; did you mean --help? (see 'oort --help')"),
        ):
            self.fails(*arguments, code=2, says=says)

    def test_model_is_a_file_or_a_folder(self):
        self.write("a/model.pnnx.param", RELU)
        self.write("b/net.pnnx.param", RELU)
        self.write("c/one.pnnx.param", RELU)
        self.write("c/two.pnnx.param", RELU)
        self.oort("info", self.dir / "a")
        self.oort("info", self.dir / "b")
        self.fails("info", self.dir / "c", says="found 2")
        self.fails("info", self.dir / "none.pnnx.param", says="none.pnnx.param")
        self.fails("info", self.dir / "b", "--bin", "none.bin", says="none.bin")

    def test_bad_models_are_1(self):
        for name, content in {
            "empty": "",
            "html": "<!DOCTYPE html><html></html>",
            "lines": "7767517\n1 1\nodd\n",
            "thrice": BROKEN_THRICE,
        }.items():
            model = self.write(f"{name}.pnnx.param", content)
            for command in (["run"], ["info"], ["bench"]):
                self.fails(*command, model)
            self.fails("convert", model, self.dir / "out.pnnx.param") if name != "thrice" else None

    def test_line_breaks_in_names_stay_in_one_line(self):
        self.fails("info", "no\nsuch\x1bmodel")

    def test_missing_weights_are_named(self):
        model = self.write(
            "m.pnnx.param",
            "7767517\n3 2\npnnx.Input pnnx_input_0 0 1 0 #0=(1,2)f32\n"
            "nn.Linear linear 1 1 0 1 bias=False in_features=2 out_features=2 @weight=(2,2)f32\n"
            "pnnx.Output pnnx_output_0 1 0 1\n",
        )
        self.fails("run", model, "--input", "x.npy", says="m.pnnx.bin")

    def test_isa_from_the_environment(self):
        model = self.write("m.pnnx.param", RELU)
        self.assertEqual(json.loads(self.oort("bench", model, "--json", env={"OORT_ISA": "scalar"}).out)["isa"],
                         "scalar")
        self.fails("bench", model, env={"OORT_ISA": "abacus"}, says="abacus")

    def test_units_are_taken_away_by_the_environment(self):
        def features(without):
            environment = {"OORT_CPU_WITHOUT": without} if without else {}
            return json.loads(self.oort("devices", "--json", env=environment).out)["cpu"]["features"]

        self.assertEqual(features("amx,avx,arm"), [])
        self.assertEqual([f for f in features("") if "tiles" not in f], features("amx"))
        self.fails("devices", env={"OORT_CPU_WITHOUT": "abacus"}, says="abacus")

    def test_machines_of_other_kinds_give_the_same_answers(self):
        odd = [
            "l1=1K,l2=1K,l3=1K,cores=256,processors=512,pipes=1,clock=0.1,memory=0.1,moves=1,flops=1,join=0,wake=0",
            "l1=1,l2=1,l3=1,cores=3,join=0,join_thread=0,wake=0,wake_thread=0,flops=1e-3,moves=1e-3",
            "l1=1G,l2=8G,l3=64G,cores=1,pipes=64,clock=10,memory=1000,moves=1e6,flops=1e6,join=1e9,wake=1e12",
        ]
        devices = json.loads(self.oort("devices", "--json", env={"OORT_MACHINE": odd[0]}).out)["cpu"]
        self.assertEqual((devices["machine"]["l2"], devices["machine"]["cores"]), (1024, 256))
        for machine in odd:
            for case in ("mini_resnet", "mini_mobilenet"):
                self.oort("verify", CORPUS / case, env={"OORT_MACHINE": machine})
        self.fails("devices", env={"OORT_MACHINE": "l9=1"}, says="l9")

    def test_a_closed_pipe_is_no_crash(self):
        command = f"'{OORT}' operators | head -n 1; exit ${{PIPESTATUS[0]}}"
        done = subprocess.run(["bash", "-c", command], capture_output=True, timeout=60)
        self.assertIn(done.returncode, (0, 141), done.stderr)

    def test_a_full_disk_is_told(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("no /dev/full")
        done = subprocess.run(["bash", "-c", f"'{OORT}' operators --json > /dev/full"], capture_output=True, timeout=60)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr.decode(), r"\Aoort: [^\n]+\n\Z")


class InfoTest(Case):
    def test_table_and_totals(self):
        model = self.write("m.pnnx.param", RELU)
        text = self.oort("info", model).out
        for part in ("pnnx_input_0", "F.relu", "(1,4)f32", "without reuse"):
            self.assertIn(part, text)

    def test_json_and_other_shape(self):
        model = self.write("m.pnnx.param", RELU)
        info = self.json("info", model, "--shape", "in0=8,16")
        self.assertEqual(info["outputs"][0]["shape"], [8, 16])
        self.assertEqual(info["inputs"][0]["traced_shape"], [1, 4])
        self.assertEqual(info["operators"][0]["type"], "F.relu")
        self.assertGreaterEqual(info["memory"]["without_reuse"], 0)
        self.assertGreaterEqual(info["memory"]["arena"], info["memory"]["arena_bound"])

    def test_unknown_shapes_ask(self):
        model = self.write("m.pnnx.param", RELU.replace("(1,4)", "(?,?)"))
        self.fails("info", model, says="--shape")
        self.oort("info", model, "--shape", "1,4")


class DoctorTest(Case):
    def test_healthy(self):
        model = self.write("m.pnnx.param", RELU)
        self.assertEqual(self.oort("doctor", model).out.splitlines()[-1], "it would run")
        self.assertTrue(self.json("doctor", model)["runs"])

    def test_all_problems_at_once(self):
        model = self.write("m.pnnx.param", BROKEN_THRICE)
        text = self.oort("doctor", model, code=1).out
        self.assertRegex(text, r"2x  my\.Unknown: unknown operator; first at 'first' in line 4")
        self.assertRegex(text, r"1x  F\.rellu: .*similar: F\.relu")
        self.assertRegex(text, r"1x  F\.max_pool1d: .*kernel_size")
        self.assertIn("LayerRegistry::Global().Add", text)
        self.assertIn("it would not run: 3 problems in 4 places", text)
        report = self.json("doctor", model, code=1)
        self.assertFalse(report["runs"])
        kinds = {p["type"]: (p["kind"], p["count"], p["first"]["line"]) for p in report["problems"]}
        self.assertEqual(kinds["my.Unknown"], ("unknown_operator", 2, 4))
        self.assertEqual(kinds["F.max_pool1d"], ("problem", 1, 6))

    def test_broken_file(self):
        model = self.write("m.pnnx.param", RELU.replace("F.relu relu 1 1 0 1", "F.relu relu 1 1 7 1"))
        self.assertEqual(self.oort("doctor", model, code=1).err, "")

    def test_a_file_that_should_be_a_language_model(self):
        model = self.write("m.gguf", "<html>404 Not Found</html>\n")
        text = self.oort("doctor", model, code=1).out
        self.assertRegex(text, r"m\.gguf' is no language model: .* it is a web page .*\nit would not run")
        self.assertFalse(self.json("doctor", model, code=1)["runs"])

    def test_without_weights(self):
        case = next(path for path in sorted(CORPUS.iterdir()) if "nn.Linear" in text_of(path / "model.pnnx.param"))
        model = self.write("m.pnnx.param", text_of(case / "model.pnnx.param"))
        self.assertEqual(self.json("doctor", model)["weights"], "missing")
        self.assertEqual(self.json("doctor", case)["weights"], "checked")
        weights = bytearray((case / "model.pnnx.bin").read_bytes())
        weights[100] ^= 1
        self.write("m.pnnx.bin", bytes(weights))
        self.assertFalse(self.json("doctor", model, code=1)["runs"])

    def test_shapes_that_do_not_fit(self):
        model = self.write("m.pnnx.param", TWO_INPUTS.replace("#b=(2)", "#b=(3)"))
        report = self.json("doctor", model, code=1)
        self.assertEqual(len(report["problems"]), 1)

    def test_a_size_that_the_trace_fixed_is_noted(self):
        lines = ("7767517\n3 2\npnnx.Input pnnx_input_0 0 1 0 #0=(1,8,3)f32\n"
                 "Tensor.view view 1 1 0 1 shape=({batch},24) $input=0 #0=(1,8,3)f32 #1=(1,24)f32\n"
                 "pnnx.Output pnnx_output_0 1 0 1 #1=(1,24)f32\n")  # fmt: skip
        fixed = self.write("fixed.pnnx.param", lines.replace("{batch}", "1"))
        text = self.oort("doctor", fixed).out
        self.assertRegex(text, r"note  a batch of 2 would not run: .*\(2,8,3\)f32.*inputs2=")
        self.assertEqual(text.splitlines()[-1], "it would run")
        self.assertEqual(len(self.json("doctor", fixed)["notes"]), 1)
        self.assertEqual(self.json("doctor", self.write("free.pnnx.param", lines.replace("{batch}", "-1")))["notes"],
                         [])
        self.write("fixed/model.pnnx.param", lines.replace("{batch}", "1"))
        self.write("fixed/in0.npy", npy([0] * 48, (2, 8, 3)))
        self.write("fixed/out0.npy", npy([0] * 48, (2, 24)))
        self.assertIn("inputs2=", self.oort("verify", self.dir / "fixed", code=1).out)


def text_of(path):
    return path.read_text() if path.exists() else ""


class BenchTest(Case):
    def test_last_line(self):
        model = self.write("m.pnnx.param", RELU)
        lines = self.oort("bench", model, "--threads", "1", "--runs", "3").out.splitlines()
        self.assertRegex(lines[-1], r"\Amedian_ms \d+\.\d{3}\Z")
        names = "load_ms memory_planned memory_resident min_ms mean_ms p90_ms median_ms".split()
        self.assertEqual([line.split()[0] for line in lines[1:]], names)

    def test_json(self):
        model = self.write("m.pnnx.param", RELU)
        result = self.json("bench", model, "--runs", "4", "--warmup", "0", "--shape", "in0=2,4", "--threads", "1")
        self.assertEqual((result["runs"], result["threads"], result["inputs"]), (4, 1, ["(2,4)f32"]))
        self.assertEqual((len(result["times_ms"]), len(result["cpu_times_ms"])), (4, 4))
        self.assertEqual(min(result["times_ms"]), result["min_ms"])
        self.assertLessEqual(result["min_ms"], result["median_ms"])
        self.assertLessEqual(result["median_ms"], result["p90_ms"])
        self.assertGreater(result["load_ms"], 0)


    def test_forced_convolutions(self):
        """The digits' network has five 3x3 convolutions of stride 1, two of stride 2, and two of 1x1."""
        quick = [DIGITS, "--runs", "2", "--warmup", "0", "--threads", "1"]
        lines = self.oort("bench", *quick, "--conv", "winograd-f4").out.splitlines()
        self.assertRegex(lines[1], r"\Aconv winograd-f4 5 of 9; not accepted by it: \S+ \d")
        self.assertRegex(lines[-1], r"\Amedian_ms \d+\.\d{3}\Z")
        self.assertEqual(self.oort("bench", *quick, "--conv", "direct").out.splitlines()[1], "conv direct 9 of 9")
        result = self.json("bench", *quick, "--conv", "winograd-f6")
        self.assertEqual((result["conv"], result["convolutions"]["winograd-f6"]), ("winograd-f6", 5))
        self.assertEqual([f["name"] for f in result["fallbacks"]], [f"convbn2d_{i}" for i in (3, 5, 6, 8)])
        unforced = self.json("bench", *quick)
        self.assertEqual(sum(unforced["convolutions"].values()), 9)
        self.assertNotIn("fallbacks", unforced)

    def test_convolutions_that_cannot_be_forced(self):
        self.fails("bench", DIGITS, "--conv", "wino", code=2, says="winograd-f4,")
        done = self.fails("bench", DIGITS, "--conv", "depthwise", "--runs", "1")
        self.assertRegex(done.err, r"--conv depthwise: none of the model's 9 convolutions .*; they take \S+ \d")
        model = self.write("m.pnnx.param", RELU)
        self.fails("bench", model, "--conv", "direct", says="--conv direct: the model has no convolution")


class ConvertTest(Case):
    def test_round_trip(self):
        case = next(path for path in sorted(CORPUS.iterdir()) if "nn.Linear" in text_of(path / "model.pnnx.param"))
        for path in case.glob("*.npy"):
            self.write(f"copy/{path.name}", path.read_bytes())
        self.oort("convert", case, self.dir / "copy" / "model.pnnx.param")
        self.oort("verify", self.dir / "copy")
        # Once more, over itself.
        first = (self.dir / "copy" / "model.pnnx.bin").read_bytes()
        self.oort("convert", self.dir / "copy", self.dir / "copy" / "model.pnnx.param")
        self.assertEqual((self.dir / "copy" / "model.pnnx.bin").read_bytes(), first)
        self.fails("convert", case, self.dir / "none" / "x.param")


class OperatorsTest(Case):
    def test_lists(self):
        self.assertRegex(self.oort("operators").out, r"\nnn\.ReLU|F\.relu")
        operators = self.json("operators")
        types = [name for op in operators for name in op["types"]]
        self.assertEqual(len(types), len(set(types)))
        self.assertIn("F.relu", types)
        self.assertNotIn("other", {op["family"] for op in operators})
        pool = next(op for op in operators if "nn.MaxPool2d" in op["types"])
        self.assertEqual((pool["traits"], pool["nhwc_form"]), (["keeps dtype"], "nhwc.MaxPool2d"))

    def test_tells_of_one(self):
        out = self.oort("operators", "maxpool2D").out
        self.assertRegex(out, r"(?m)^nn\.MaxPool2d")
        self.assertRegex(out, r"(?m)^  kernel_size +parameter +")
        self.assertNotIn("nn.ReLU", out)
        found = self.json("operators", "F.relu")
        self.assertTrue(all(any("F.relu" in name for name in op["types"]) for op in found) and found)
        self.fails("operators", "rellu", code=1, says="no operator has 'rellu' in its name")

    def test_markdown_is_well_formed(self):
        text = self.oort("operators", "--markdown").out
        self.assertTrue(text.startswith("# Operators\n"))
        for line in text.splitlines():
            if line.startswith("|"):
                self.assertIn(len(re.findall(r"(?<!\\)\|", line)), (3, 6), line)
            self.assertLessEqual(len(line), 120, line)


class DevicesTest(Case):
    def test_devices(self):
        devices = self.json("devices")
        self.assertIn("scalar", devices["cpu"]["isas"])
        self.assertGreaterEqual(devices["cpu"]["threads"], 1)
        self.assertIn("instruction sets", self.oort("devices").out)


@unittest.skipUnless((DIGITS / "digits.pnnx.param").exists(), "no models/digits")
class DigitsTest(Case):
    def test_samples_are_read(self):
        read = ""
        for digit in range(10):
            picture = DIGITS / "samples" / f"digit-{digit}.png"
            top = self.json("run", DIGITS, "--input", picture, "--labels", DIGITS / "labels.txt")["top"][0]
            read += top[0]["label"]
        self.assertEqual(read, "0123456789")

    def test_case_is_answered_as_by_torch(self):
        self.assertTrue(self.oort("verify", DIGITS / "case").out.endswith("1 passed, 0 failed\n"))

    def test_demo(self):
        picture = DIGITS / "samples" / "digit-3.png"
        done = subprocess.run([DEMOS / "resnet", DIGITS, picture], capture_output=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout.decode(), r"│  3 +\d+\.\d % █+.*←")
        self.assertEqual(subprocess.run([DEMOS / "resnet"], capture_output=True, timeout=60).returncode, 2)
        self.assertEqual(
            subprocess.run([DEMOS / "resnet", DIGITS, "none.png"], capture_output=True, timeout=60).returncode, 1
        )

    def test_arma_demo(self):
        if not (DEMOS / "arma").exists():
            self.skipTest("built without Armadillo")
        pictures = sorted((DIGITS / "samples").glob("digit-*.png"))
        done = subprocess.run([DEMOS / "arma", DIGITS / "digits.pnnx.param", *pictures], capture_output=True,
                              timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        for picture, line in zip(pictures, done.stdout.decode().splitlines(), strict=True):
            self.assertRegex(line, rf"digit-(\d)\.png: \1 \(\d+\.\d %\)\Z")
            self.assertIn(picture.name, line)
        self.assertEqual(subprocess.run([DEMOS / "arma"], capture_output=True, timeout=60).returncode, 2)


class CustomOperatorTest(unittest.TestCase):
    def test_demo(self):
        done = subprocess.run([DEMOS / "custom_operator"], capture_output=True, timeout=60)
        self.assertEqual(done.stdout.decode(), "my.Swirl: 0 0.958851 1.68294 1.99499\n")


if __name__ == "__main__":
    unittest.main()
