#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""bench/compare without any runtime: its table and its means."""
import importlib.machinery
import importlib.util
import pathlib
import subprocess
import sys
import unittest

SCRIPT = pathlib.Path(sys.argv.pop(1))
loader = importlib.machinery.SourceFileLoader("compare", str(SCRIPT))
compare = importlib.util.module_from_spec(importlib.util.spec_from_loader("compare", loader))
sys.dont_write_bytecode = True
loader.exec_module(compare)


def row(model, threads, ours, others, difference=0.0):
    times = {"oort": ours, **others}
    best = min(others.values()) / ours
    return {
        "model": model,
        "threads": threads,
        "median_ms": times,
        "min_ms": times,
        "difference": dict.fromkeys(times, difference),
        "ahead_median": best,
        "ahead_min": best,
    }


ABOUT = {"machine": "a machine", "versions": {"oort": "1", "torch": "2"}, "date": "2026-01-01", "clock": "wall time"}


class CompareTest(unittest.TestCase):
    def test_table(self):
        rows = [
            row("a", 1, 2.0, {"torch": 8.0, "ncnn": 4.0}),
            row("b", 1, 2.0, {"torch": 1.0}),
            row("a", 2, 1.0, {"torch": 3.0, "ncnn": 9.0}),
        ]
        lines = compare.table({"about": ABOUT, "rows": rows}).splitlines()
        self.assertIn("a machine; oort 1, torch 2; 2026-01-01", lines[0])
        self.assertEqual(lines[2].split(" | ")[2:5], ["ncnn", "torch", "oort"])
        self.assertEqual(lines[4], "| a | 1 | 4.00 | 8.00 | 2.00 | 2.00 | 2.00 |")
        self.assertEqual(lines[5], "| b | 1 | – | 1.00 | 2.00 | 0.50 | 0.50 |")
        self.assertTrue(all(line.count("|") == 8 for line in lines[2:7]))
        self.assertIn("- geometric mean, threads 1: 1.00", lines[8])
        self.assertIn("- geometric mean, threads 2: 3.00", lines[9])

    def test_differences_of_modes_below_f32(self):
        low = row("a", 1, 2.0, {"ncnn f16": 4.0}, difference=0.0035)
        self.assertIn("4.00 (3.5e-03)", compare.table({"about": ABOUT, "rows": [low]}))

    def test_help(self):
        done = subprocess.run([sys.executable, str(SCRIPT), "--help"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0)
        self.assertIn("--low", done.stdout)


if __name__ == "__main__":
    unittest.main()
