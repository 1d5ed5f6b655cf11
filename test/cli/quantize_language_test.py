#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`oort quantize` of language models from outside: what it writes and reports, and what it refuses."""
import json
import subprocess
import sys
import unittest
from pathlib import Path

from cli_test import OORT, SOURCE, Case

STORYTELLER = SOURCE / "models" / "storyteller"
TINY = SOURCE / "test" / "checkpoints" / "llama.gguf"
STORY = """Once upon a time there was a little fox who lived in the forest. One day the fox found a red ball. The fox
was happy and played with the ball all day. Then a bird came and asked to play, too. They played together and became
good friends. In the evening the fox went home and told everything to the mother.\n"""


class QuantizeLanguageTest(Case):
    def setUp(self):
        super().setUp()
        self.out = self.dir / "out" / "model.pnnx.param"
        self.out.parent.mkdir()
        self.text = self.write("text.txt", (STORY * 12).encode())
        self.calibrate = ["--calibrate", self.text, "--window", "64", "--tokens", "640"]

    def quantize(self, *arguments, model=STORYTELLER):
        return self.json("quantize", model, "--output", self.out, "--threads", "1", *arguments)

    def refuses(self, *arguments, says, model=STORYTELLER, code=1):
        done = self.fails("quantize", model, "--output", self.out, *arguments, code=code, says=says)
        self.assertEqual(list(self.out.parent.iterdir()), [])
        return done

    def test_methods(self):
        """Each method writes a model that talks, and says how far it is from the original."""
        divergences = {}
        for method in ("search", "imatrix", "gptq", "awq"):
            report = self.quantize("--weights", "int4", "--group", "64", "--method", method, *self.calibrate,
                                   "--test", self.text, "--test-tokens", "256")
            self.assertEqual(report["method"], method)
            self.assertEqual(report["tokens"], 0 if method == "search" else 640)
            self.assertLess(report["bits_per_weight"], 7)
            kinds = {matrix["name"].split(".")[-2]: matrix["type"] for matrix in report["matrices"]}
            self.assertEqual(kinds["down_proj"], "int4")
            self.assertEqual(kinds["embed_tokens"], "int8")
            self.assertTrue(all(0 < matrix["relative_error"] < 0.1 for matrix in report["matrices"]))
            test = report["test"]
            self.assertEqual(test["tokens"], 255)
            self.assertGreater(test["perplexity"], 1)
            divergences[method] = test["kl_divergence"]
            again = self.json("perplexity", self.out, self.text, "--against", STORYTELLER, "--exact",
                              "--window", "64")
            self.assertGreater(again["kl_divergence"], 0)
        # The text is that of the calibration, and so no measure of quality: GPTQ fits it best.
        self.assertLess(divergences["gptq"], divergences["search"])
        self.assertLess(divergences["gptq"], 0.5)

    def test_smooth(self):
        """The model stays what it was, in the types that it has, and a recipe does the same again."""
        report = self.quantize("--method", "smooth", *self.calibrate, "--test", self.text, "--test-tokens", "256")
        self.assertTrue(all(matrix["kept"] for matrix in report["matrices"]))
        self.assertLess(report["test"]["kl_divergence"], 1e-9)
        smooth = self.out.with_suffix("").with_suffix(".pnnx.bin").read_bytes()
        recipe = Path(report["recipe"])
        self.assertEqual(json.loads(recipe.read_text())["matrices"], {})
        self.quantize("--recipe", recipe, "--calibrate", self.text)
        self.assertEqual(self.out.with_suffix("").with_suffix(".pnnx.bin").read_bytes(), smooth)

    def test_importance_file(self):
        """What a text showed is written, and read again instead of the text."""
        file = self.dir / "importance.gguf"
        self.quantize("--method", "imatrix", *self.calibrate, "--write-imatrix", file)
        with open(self.out.with_suffix(".bin"), "rb") as stream:
            first = stream.read()
        report = self.quantize("--imatrix", file)
        self.assertEqual(report["method"], "imatrix")
        self.assertEqual(report["tokens"], 0)
        with open(self.out.with_suffix(".bin"), "rb") as stream:
            self.assertEqual(len(stream.read()), len(first))

    def test_gguf(self):
        """A GGUF becomes a GGUF that is read again, and the table names its matrices."""
        self.out = self.dir / "out" / "model.gguf"
        done = self.oort("quantize", TINY, "--weights", "q8_0", "--output", self.out, "--report")
        self.assertIn(b"model.layers.0.self_attn.q_proj.weight", done.stdout)
        self.assertIn(b"bits a weight", done.stdout)
        self.assertIn(b"llama", self.oort("info", self.out).stdout)

    def test_gguf_of_a_folder(self):
        """A folder of Hugging Face becomes a GGUF with the same tokens and nearly the same answers."""
        self.out = self.dir / "out" / "model.gguf"
        report = self.quantize("--weights", "q8_0", "--method", "search", "--test", self.text, "--test-tokens", "128")
        self.assertLess(report["test"]["kl_divergence"], 0.01)
        for text in ("Tell me a story about a fox.", "It's  12345 -- naïve?\n", "<|user|>Hi<|end|>"):
            tokens = [subprocess.run([OORT, "tokenize", model, "--ids"], input=text.encode(), capture_output=True,
                                     check=True)
                      for model in (STORYTELLER, self.out)]  # fmt: skip
            self.assertEqual(tokens[0].stdout, tokens[1].stdout)
        self.quantize("--weights", "q4_k_m", "--method", "search")
        self.out.unlink()
        self.out.with_name("model.recipe.json").unlink()
        self.refuses("--weights", "q8_0", "--method", "search", model=TINY.with_name("qwen2"), says="tokenizer.json")

    def test_budget_and_recipe(self):
        """A budget is kept, the page names the matrices, and the recipe does the same again."""
        page = self.dir / "report.html"
        first = self.quantize("--budget", "5", "--method", "imatrix", *self.calibrate, "--html", page)
        self.assertLessEqual(first["layer_bits_per_weight"], 5)
        self.assertGreater(first["layer_bits_per_weight"], 4.2)
        types = {matrix["name"]: (matrix["type"], matrix["group"]) for matrix in first["matrices"]}
        self.assertGreater(len(set(types.values())), 2)
        self.assertIn(b"model.layers.0.mlp.down_proj.weight", page.read_bytes())
        recipe = self.dir / "kept.json"
        recipe.write_bytes(self.out.with_name("model.recipe.json").read_bytes())
        with open(self.out.with_suffix(".bin"), "rb") as stream:
            before = stream.read()
        again = self.quantize("--recipe", recipe, "--calibrate", self.text)
        self.assertEqual({matrix["name"]: (matrix["type"], matrix["group"]) for matrix in again["matrices"]}, types)
        with open(self.out.with_suffix(".bin"), "rb") as stream:
            self.assertEqual(stream.read(), before)

    def test_rules(self):
        recipe = self.write("rules.json", b'{"version": 1, "rules": [{"match": "*.q_proj.weight", "type": "q8_0"}]}')
        report = self.quantize("--weights", "int4", "--recipe", recipe)
        kinds = {matrix["name"].split(".")[-2]: matrix["type"] for matrix in report["matrices"]}
        self.assertEqual((kinds["q_proj"], kinds["k_proj"]), ("q8_0", "int4"))

    def test_refuses_recipes(self):
        matrices = b'{"model.layers.99.mlp.up_proj.weight": {"type": "q4_0"}}'
        other = self.write("other.json", b'{"version": 1, "matrices": ' + matrices + b"}")
        self.refuses("--recipe", other, says="for another model")
        network = self.write("network.json", b'{"version": 1, "percentile": 99}')
        self.refuses("--recipe", network, says="unknown key 'percentile'")
        self.refuses("--budget", "0.5%", code=2, says="expected bits of a weight")
        self.refuses("--budget", "3", says="the budget is too small")

    def test_refuses(self):
        short = self.write("short.txt", b"Once upon a time")
        self.refuses("--method", "gptq", "--calibrate", short, says="less than one window of 512")
        self.refuses("--method", "gptq", says="needs a text")
        self.refuses("--method", "kl", says="there are search, imatrix, gptq, awq and smooth")
        self.refuses("--method", "smooth", "--weights", "int8", *self.calibrate, code=2, says="leave out --weights")
        self.refuses("--weights", "int3", says="weights can be int4")
        self.refuses("--weights", "int4", "--group", "256", says="no whole groups of 256")
        self.refuses("--weights", "q4_0", "--group", "64", says="q4_0 has its own")
        self.refuses("--imatrix", TINY, says="no imatrix")
        self.refuses("--method", "imatrix", "--calibrate", self.dir / "none.txt", says="none.txt")
        digits = SOURCE / "models" / "digits"
        self.refuses("--group", "64", "--calibrate", digits / "samples", model=digits, code=2,
                     says="is for language models")
        self.refuses("--method", "gptq", "--calibrate", digits / "samples", model=digits, code=2, says="networks have")

    def test_refuses_what_is_for_networks(self):
        """What would be ignored is refused, by its name; and the reverse, whichever option it is."""
        for option in ("--equalize", "--adaround", "--dynamic", "--symmetric", "--one-scale", "--invert",
                       "--no-bias-correction", "--no-checksums", "--samples=9", "--test-samples=9", "--labels=l.txt",
                       "--percentile=99", "--mean=0.5", "--std=0.5", "--bin=model.bin"):  # fmt: skip
            done = self.refuses("--weights", "q8_0", option, code=2, says=f"{option.split('=')[0]} is for networks")
            self.assertIn("is a language model, of which weights alone get fewer bits", done.err)
        digits = SOURCE / "models" / "digits"
        for option in ("--group=64", "--asymmetric", "--imatrix=i.dat", "--write-imatrix=i.dat", "--tokens=64",
                       "--window=64", "--test-tokens=64", "--damping=0.1", "--file-order", "--resume"):  # fmt: skip
            self.refuses("--dynamic", option, model=digits, code=2,
                         says=f"{option.split('=')[0]} is for language models")


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
