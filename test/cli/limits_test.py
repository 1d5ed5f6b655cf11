#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What `oort limits` says of language models on machines."""
import json
import unittest

from cli_test import SOURCE, Case


class LimitsTest(Case):
    QWEN = {"model_type": "qwen2", "vocab_size": 151936, "hidden_size": 4096, "num_hidden_layers": 32,
            "num_attention_heads": 32, "intermediate_size": 11008}
    # The units of the published tables: 1 G is 2^30, 1 T is 2^40.
    UNITS = ["--bandwidth", 1008 * 1.073741824, "--tflops", 82.58 * 1.099511627776, "--memory", 24]

    def test_published_figures(self):
        config = self.write("Qwen/config.json", json.dumps(self.QWEN))
        report = self.json("limits", config, "--machine", "4090", *self.UNITS, "--each-position")
        self.assertEqual(report["model"], "Qwen")
        self.assertEqual(report["parameters"]["stored"], 7721324544)
        cases = {case["precision"]: case for case in report["machines"][0]["cases"]}
        self.assertEqual(len(cases), 8)
        once, every = cases["w8kv16"]["prefill"], cases["w8kv16"]["prefill_head_for_all"]
        self.assertEqual([int(turn) for turn in once["turning_points"]], [50, 544])
        self.assertEqual([int(turn) for turn in every["turning_points"]], [45, 607])
        self.assertEqual(cases["w6kv16"]["longest_context_without_embedding"], 38997)
        self.assertEqual(cases["w4kv8"]["longest_context_without_embedding"], 84764)
        self.assertAlmostEqual(cases["w8kv16"]["decode_first"]["seconds"], 6.56e-3, 5)
        self.assertEqual(round(cases["w8kv16"]["positions_per_millisecond"]), 2064)

    def test_memory_on_a_gpu(self):
        config = self.write("config.json", json.dumps(self.QWEN))
        report = self.json("limits", config, "--machine", "h200", "--weights", "16,6,4", "--kv", "16,8",
                           "--group", "64")
        memory = {row["precision"]: row for row in report["gpu_memory"]}
        self.assertEqual(sorted(memory), ["w16kv16", "w16kv8", "w4kv16", "w4kv8"])
        self.assertGreater(memory["w4kv8"]["cache"], memory["w4kv16"]["cache"] / 2)  # scales
        norms = report["parameters"]["norms"]
        biases = 32 * 3 * 4096  # f32 there
        self.assertEqual(memory["w16kv16"]["weights"], 2 * report["parameters"]["stored"] + 2 * (norms + biases))
        for row in memory.values():
            self.assertEqual(row["total"], row["weights"] + row["cache"] + row["activations"])
        small = self.write("small/config.json", json.dumps({**self.QWEN, "num_hidden_layers": 2, "vocab_size": 1000}))
        report = self.json("limits", config, "--machine", "h200", "--weights", "4", "--kv", "16,int8,k6v4")
        bytes_of = report["kv_bytes_per_position"]
        self.assertEqual(bytes_of["8"], bytes_of["16"] / 2)
        self.assertEqual(bytes_of["6.031"], bytes_of["16"] * 6.03125 / 16)
        self.assertIn("neither 1 to 64 bits nor one of", self.oort("limits", config, "--kv", "int3", code=2).err)
        report = self.json("limits", small, "--machine", "h200", "--weights", "4")
        self.assertEqual([row["precision"] for row in report["gpu_memory"]], ["w4kv16", "w4kv32", "w4kv8"])
        text = self.oort("limits", config, "--machine", "h200").out
        self.assertRegex(text, r"on a GPU +weights +cache of 4096 +activations +together\n +w16kv16 +14\.")

    def test_products_of_bytes(self):
        """Weights of more than 4 bits have 8 then, and a prompt that computes takes half the time or more."""
        config = self.write("config.json", json.dumps(self.QWEN))
        given = ("limits", config, "--machine", "h200", "--weights", "16,8,4", "--kv", "16", "--prompt", "2048")
        plain, bytes_ = self.json(*given), self.json(*given, "--activations", "int8")
        of = {case["precision"]: case for case in bytes_["machines"][0]["cases"]}
        self.assertEqual(sorted(of), ["w4kv16", "w8a8kv16"])
        self.assertEqual([of[name]["activation_bits"] for name in sorted(of)], [16, 8])
        before = plain["machines"][0]["cases"][0]["prefill"]["seconds"]
        self.assertTrue(before / 2 < of["w8a8kv16"]["prefill"]["seconds"] < before * 0.6)
        weights = {row["precision"]: row["weights"] for row in bytes_["gpu_memory"]}
        self.assertLess(weights["w8a8kv16"], 0.62 * plain["gpu_memory"][0]["weights"])
        self.assertIn("int7", self.oort("limits", config, "--activations", "int7", code=2).err)

    def test_table_and_pictures(self):
        config = self.write("config.json", json.dumps(self.QWEN)).parent
        for name in ("limits.svg", "limits.html"):
            text = self.oort("limits", config, "--machine", "h100,4090", "--weights", "16,4", "--kv", "8",
                             "--plot", self.dir / name).out
            self.assertRegex(text, r"(?s)feed-forward +4\.3 G.*h100:.*w4kv8 .*4090:")
            picture = (self.dir / name).read_text()
            self.assertIn("h100 w16kv8", picture)
            self.assertIn(">1 k<", picture)
            self.assertNotIn("e+", picture)
            self.assertNotIn("://", picture.replace("http://www.w3.org/2000/svg", ""))
        self.assertIn("neoverse-v2", self.oort("limits", "--list").out)

    def test_several_machines(self):
        config = self.write("config.json", json.dumps(self.QWEN))
        ask = ["limits", config, "--machine", "h100", "--weights", "16", "--kv", "16", "--link", "nvlink,1gbe",
               "--ranks", "1,2,8"]
        rows = self.json(*ask)["machines"][0]["ranks"]
        times = {(row["link"], row["ranks"]): row["own_seconds"] + row["exchange_seconds"] for row in rows}
        self.assertEqual(times["nvlink", 1], times["1gbe", 1])
        self.assertLess(times["nvlink", 8], times["nvlink", 2])
        self.assertLess(times["nvlink", 2], times["nvlink", 1])
        self.assertGreater(times["1gbe", 8], times["1gbe", 1])  # what is exchanged takes longer than what is saved
        self.assertIn("slower than one", self.oort(*ask).out)
        self.fails("limits", config, "--machine", "h100", "--link", "string", code=1, says="known are nvlink")

    def test_this_machine(self):
        config = self.write("config.json", json.dumps(self.QWEN))
        machine = self.json("limits", config, "--threads", "1")["machines"][0]
        self.assertEqual(machine["name"], "this")
        self.assertGreater(machine["bandwidth"], 1e8)
        self.assertGreater(machine["flops"], 1e8)

    def test_errors(self):
        self.fails("limits", code=2, says="MODEL")
        self.fails("limits", self.dir / "none", says="none': No such file")
        broken = self.fails("limits", self.write("a.json", "{"), says="config.json: no valid JSON (")
        self.assertNotIn("json.exception", broken.err)
        self.fails("limits", SOURCE / "README.md", says="README.md' is no language model: expected a GGUF file")
        self.fails("limits", self.dir, says="config.json': No such file")
        self.fails("limits", self.write("b.json", "{}"), says="vocab_size")
        self.fails("limits", self.write("c.json", json.dumps(self.QWEN)), "--machine", "abacus", says="there are a100")
        self.fails("limits", self.write("d.json", json.dumps(self.QWEN)), "--weights", "0", code=2)
        self.fails("limits", self.dir / "d.json", "--machine", "h100", "--plot", "limits.png", code=2,
                   says=".svg or .html")


if __name__ == "__main__":
    unittest.main()
