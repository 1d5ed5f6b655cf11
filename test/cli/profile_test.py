#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`oort profile` from outside: its table, its JSON, and the files that it writes for other programs."""
import json
import os
import re
import resource
import signal
import subprocess
import unittest
import xml.dom.minidom

from cli_test import OORT, RELU, SOURCE, Case, npy

# How many there are depends on the elements.
NONZERO = """7767517
4 3
pnnx.Input pnnx_input_0 0 1 0 #0=(6)f32
torch.nonzero find 1 1 0 1 $input=0
torch.neg negative 1 1 1 2 $input=1
pnnx.Output pnnx_output_0 1 0 2
"""
QUICK = ["--runs", "2", "--warmup", "1", "--threads", "1"]


def chain(names):
    """A model of one function for each name."""
    lines = ["7767517", f"{len(names) + 2} {len(names) + 1}", "pnnx.Input pnnx_input_0 0 1 0 #0=(1,64)f32"]
    lines += [f"nn.Tanh {name} 1 1 {i} {i + 1}" for i, name in enumerate(names)]
    return "\n".join(lines + [f"pnnx.Output pnnx_output_0 1 0 {len(names)}", ""])


class ProfileTest(Case):
    def model(self):
        return self.write("m.pnnx.param", chain(["stem.act", "layer1.0.act", "layer1.1.act", "head"]))

    def test_table(self):
        out = self.oort("profile", self.model(), *QUICK).out
        for word in ("operator", "GFLOP/s", "GB/s", "roof", "bound", "roofs of 1 thread", "L1", "memory"):
            self.assertIn(word, out)
        for name in ("stem.act", "layer1.0.act", "layer1.1.act", "head"):
            self.assertRegex(out, rf"\n{re.escape(name)} +nn\.Tanh +\(1,64\)f32 +\d+\.\d{{3}} +\d+\.\d % +[█▏▎▍▌▋▊▉]+ ")
        self.assertRegex(out, r"\noperators +\d+\.\d{3} +ms")
        self.assertRegex(out, r"operators take \d+\.\d % of a run")
        self.assertRegex(out.splitlines()[-1], r"\Awall +\d+\.\d{3} +ms, the fastest whole run without it")

    def test_rows(self):
        model = self.model()
        out = self.oort("profile", model, *QUICK, "--top", "2").out
        self.assertIn("… and 2 more", out)
        out = self.oort("profile", model, *QUICK, "--by", "type").out
        self.assertRegex(out, r"\nnn\.Tanh +4 ")
        out = self.oort("profile", model, *QUICK, "--by", "module").out
        self.assertRegex(out, r"\nlayer1 +2 .*\n  layer1\.0 +1 .*\n  layer1\.1 +1 .*\n\(top\) +1 ")

    def test_sums(self):
        report = self.json("profile", self.model(), *QUICK)
        self.assertEqual([op["name"] for op in report["operators"]], ["stem.act", "layer1.0.act", "layer1.1.act",
                                                                      "head"])
        total = sum(op["ms"] for op in report["operators"])
        self.assertAlmostEqual(total, report["total"]["ms"], places=9)
        self.assertAlmostEqual(sum(op["share"] for op in report["operators"]), 1, places=9)
        self.assertAlmostEqual(sum(group["ms"] for group in report["types"]), total, places=9)
        roots = [group for group in report["modules"] if group["depth"] == 0]
        self.assertAlmostEqual(sum(group["ms"] for group in roots), total, places=9)
        # The fastest of each step cannot take longer than the fastest of all steps together.
        self.assertLessEqual(total, report["profiled_wall_ms"])
        self.assertTrue(0 < report["explained"] <= 1)
        self.assertLessEqual(report["wall_ms"], report["median_wall_ms"])
        for op in report["operators"]:
            self.assertEqual((op["flops"] > 0 or op["bytes"] > 0), True)
            self.assertAlmostEqual(op["gbytes"], op["bytes"] / op["ms"] / 1e6, places=6)
            self.assertAlmostEqual(op["roof"], op["ideal_ms"] / op["ms"], places=6)
            self.assertIn(op["bound"], ("compute", "overhead", *[m["level"] for m in report["roofs"]["memory"]]))
        self.assertEqual(report["roofs"]["memory"][-1]["level"], "memory")
        self.assertIn(report["isa"], [roof["isa"] for roof in report["roofs"]["compute"]])
        for block in report["memory"]["blocks"]:
            self.assertLessEqual(block["offset"] + block["bytes"], report["memory"]["arena"])

    def test_modules_of_operators_that_lost_their_names(self):
        names = ["stem.act", "convbn_0", "layer1.0.act", "F.tanh_3", "layer1.1.act", "fc"]
        model = self.write("m.pnnx.param", chain(names).replace("nn.Tanh F.tanh_3", "F.tanh F.tanh_3"))
        modules = {op["name"]: op["module"] for op in self.json("profile", model, *QUICK)["operators"]}
        self.assertEqual(modules["layer1.0.act"], "layer1.0")
        self.assertEqual(modules["F.tanh_3"], "layer1.0")
        self.assertEqual(modules["convbn_0"], "stem")
        self.assertEqual(modules["fc"], "(top)")

    def test_algorithms(self):
        """Of convolutions alone: other operators are computed in one way."""
        digits = SOURCE / "models" / "digits"
        report = self.json("profile", digits, *QUICK, "--html", self.dir / "page.html")
        algorithms = {op["name"]: op["algorithm"] for op in report["operators"]}
        self.assertEqual({name for name in algorithms if algorithms[name]}, {f"convbn2d_{i}" for i in range(9)})
        self.assertEqual((algorithms["convbn2d_5"], algorithms["head"]), ("direct", ""))
        self.assertIn(">direct<", (self.dir / "page.html").read_text())
        out = self.oort("profile", digits, *QUICK, "--top", "0").out
        self.assertRegex(out, r"operator +type +output +algorithm +ms ")
        self.assertRegex(out, r"\nconvbn2d_5 +nhwc\.Conv2d +\(1,14,14,32\)f32 +direct +\d+\.\d{3} ")
        self.assertNotIn("algorithm", self.oort("profile", self.model(), *QUICK).out)

    def test_inputs(self):
        model = self.write("m.pnnx.param", RELU)
        self.assertEqual(self.json("profile", model, *QUICK, "--shape", "in0=3,4")["inputs"], ["(3,4)f32"])
        x = self.write("x.npy", npy([1, 2, 3, 4, 5, 6, 7, 8], (2, 4)))
        report = self.json("profile", model, *QUICK, "--input", x)
        self.assertEqual(report["operators"][0]["outputs"], ["(2,4)f32"])

    def test_sizes_that_depend_on_data(self):
        model = self.write("m.pnnx.param", NONZERO)
        x = self.write("x.npy", npy([0, 1, 0, 2, 3, 0], (6,)))
        report = self.json("profile", model, *QUICK, "--input", x, "--param", self.dir / "out.param")
        self.assertEqual(report["operators"][0]["outputs"], ["(3,1)i64"])
        self.assertEqual(report["operators"][1]["bytes"], 48)
        self.assertIn("=(3,1)i64", (self.dir / "out.param").read_text())

    def test_wrong_usage_is_2(self):
        model = self.write("m.pnnx.param", RELU)
        for arguments in (
            ["--by", "colour"],
            ["--top", "-1"],
            ["--runs", "0"],
            ["--threads", "-2"],
            ["--shape", "1,4", "--input", "x.npy"],
            ["--html"],
            ["--nonsense"],
        ):
            self.fails("profile", model, *arguments, code=2)
        self.fails("profile", code=2)
        self.fails("profile", self.dir / "none.pnnx.param", says="none.pnnx.param")
        for option in ("--html", "--trace", "--dot", "--param"):
            self.fails("profile", model, *QUICK, option, self.dir / "none" / "file", says="file")
        self.fails("profile", model, *QUICK, "--svg", model, says="roofline.svg")

    def test_a_full_disk_is_told_and_leaves_nothing(self):
        def limited():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

        page = self.dir / "page.html"
        command = [OORT, "profile", self.write("m.pnnx.param", RELU), *QUICK, "--html", page]
        done = subprocess.run([*map(str, command)], capture_output=True, timeout=60, preexec_fn=limited)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr.decode(), r"\Aoort: cannot write '.*page.html': File too large\n\Z")
        self.assertEqual([path.name for path in self.dir.iterdir()], ["m.pnnx.param"])
        if os.path.exists("/dev/full"):
            self.fails("profile", self.dir / "m.pnnx.param", *QUICK, "--html", "/dev/full",
                       says="No space left on device")


class ProfileFilesTest(Case):
    """What is written for other programs, of a model whose names are a trap for each format."""

    NAMES = ['a<b>&amp;', 'q"uote\\', "layer1.0.日本", "raw\udcff"]

    def setUp(self):
        super().setUp()
        text = chain(self.NAMES).encode("utf-8", "surrogateescape")
        self.files = {name: self.dir / f"out.{name}" for name in ("html", "trace", "dot", "param")}
        arguments = [word for name, path in self.files.items() for word in (f"--{name}", path)]
        out = self.oort("profile", self.write("m.pnnx.param", text), *QUICK, *arguments, "--svg", self.dir / "svg").out
        self.assertIn("operators take", out)

    def text(self, name):
        return self.files[name].read_bytes().decode("utf-8", "surrogateescape")

    def test_html(self):
        page = xml.dom.minidom.parseString(self.files["html"].read_bytes())
        pictures = page.getElementsByTagName("svg")
        self.assertEqual(len(pictures), 3)  # roofline, memory plan, graph
        text = self.text("html")
        for title in ("Roofline", "Operators", "Modules", "Memory plan", "The graph as it runs"):
            self.assertIn(f"<h2>{title}</h2>", text)
        self.assertIn("a&lt;b&gt;&amp;amp;", text)
        self.assertNotRegex(text.replace('xmlns="http://www.w3.org/2000/svg"', ""), r"https?://|src=|@import")
        rows = page.getElementsByTagName("tbody")[0].getElementsByTagName("tr")
        self.assertEqual(len(rows), len(self.NAMES))

    def test_pictures(self):
        for name in ("roofline", "memory", "graph"):
            picture = xml.dom.minidom.parse(str(self.dir / "svg" / f"{name}.svg"))
            self.assertEqual(picture.documentElement.tagName, "svg")
        boxes = xml.dom.minidom.parse(str(self.dir / "svg" / "graph.svg")).getElementsByTagName("title")
        self.assertEqual(len(boxes), len(self.NAMES) + 2)

    def texts(self, picture):
        drawn = xml.dom.minidom.parse(str(picture)).getElementsByTagName("text")
        return [(float(t.getAttribute("x")), float(t.getAttribute("y")), t.firstChild.data) for t in drawn
                if t.firstChild]

    def test_labels_do_not_lie_on_each_other(self):
        """Roofs and the legend beside the plot; each type has a colour of its own."""
        types = ["nn.Tanh", "nn.Sigmoid", "nn.GELU", "nn.SiLU", "nn.ELU", "nn.Mish", "nn.Softplus", "nn.Hardswish"]
        lines = chain([f"op{i}" for i in range(len(types))]).replace("nn.Tanh", "{}").format(*types)
        self.oort("profile", self.write("types.pnnx.param", lines), *QUICK, "--no-passes", "--svg", self.dir / "types")
        labels = self.texts(self.dir / "types" / "roofline.svg")
        beside = sorted(y for x, y, _ in labels if x > 750)
        self.assertGreater(len(beside), len(types))
        for upper, lower in zip(beside, beside[1:]):
            self.assertGreaterEqual(lower - upper, 10)
        self.assertFalse([text for _, _, text in labels if "e+" in text])
        picture = xml.dom.minidom.parse(str(self.dir / "types" / "roofline.svg"))
        colors = {c.getAttribute("fill") for c in picture.getElementsByTagName("circle")}
        self.assertEqual(len(colors), len(types))

    def test_blocks_of_memory_are_named(self):
        self.oort("profile", SOURCE / "models" / "digits", *QUICK, "--svg", self.dir / "digits")
        self.assertTrue([text for _, _, text in self.texts(self.dir / "digits" / "memory.svg") if "convbn2d" in text])

    def test_trace(self):
        trace = json.loads(self.files["trace"].read_bytes())
        events = trace["traceEvents"]
        slices = [event for event in events if event["ph"] == "X" and event["tid"] == 1]
        self.assertEqual(len(slices), len(self.NAMES))
        self.assertEqual(slices[0]["name"], self.NAMES[0])
        self.assertEqual(slices[2]["name"], self.NAMES[2])
        end = 0
        for event in slices:
            self.assertGreaterEqual(event["ts"], end - 1e-3)
            self.assertGreaterEqual(event["dur"], 0)
            end = event["ts"] + event["dur"]
        tracks = {event["args"]["name"] for event in events if event["name"] == "thread_name"}
        self.assertIn("operators", tracks)

    def test_dot(self):
        dot = self.text("dot")
        self.assertTrue(dot.startswith("digraph ") and dot.endswith("}\n"))
        strings = re.compile(r'"(?:[^"\\]|\\.)*"', re.S)
        bare = strings.sub('""', dot)
        self.assertNotIn('"', bare.replace('""', ""))
        self.assertEqual(bare.count("{"), bare.count("}"))
        self.assertEqual(len(re.findall(r"^  n\d+ \[label=", bare, re.M)), len(self.NAMES) + 2)
        self.assertEqual(len(re.findall(r"^  n\d+ -> n\d+ ", bare, re.M)), len(self.NAMES) + 1)
        self.assertRegex(dot, r'fillcolor="#[0-9a-f]{6}"')
        self.assertIn("(1,64)f32", dot)

    def test_param(self):
        lines = self.text("param").splitlines()
        self.assertEqual(lines[0], "7767517")
        self.assertEqual(lines[1].split(), [str(len(self.NAMES) + 2), str(len(self.NAMES) + 1)])
        known = set()
        for line in lines[2:]:
            words = line.split()
            inputs, outputs = int(words[2]), int(words[3])
            self.assertTrue(set(words[4 : 4 + inputs]) <= known, "a consumer before its producer")
            known |= set(words[4 + inputs : 4 + inputs + outputs])
        self.assertEqual([line.split()[1] for line in lines[3:-1]], self.NAMES)
        self.assertEqual(len([line for line in lines if "profile_ms=" in line]), len(self.NAMES))


if __name__ == "__main__":
    unittest.main()
