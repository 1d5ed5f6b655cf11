#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tools/check-includes finds what it must, and only that."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = sys.argv.pop(1)

GOOD = {
    "include/oort/a.h": "#include <vector>\n#include \"oort/b.h\"\n",
    "include/oort/arma.h": "#include <armadillo>\n",
    "include/oort/c.h": "#include \"oort/c_network.h\"\n",
    "include/oort/c_network.h": "#include <stddef.h>\n",
    "include/oort/glog.h": "#include <glog/logging.h>\n",
    "source/core/a.cpp": "#include <glog/logging.h>\n#include \"core/b.h\"\n",
    "source/cpu/a.cpp": "#include \"core/b.h\"\n",
    "source/cpu/vec.h": "",
    "layers/y/c.h": "#include \"cpu/vec.h\"\n",
    "layers/x/a.cpp": "#include \"parser/expression/b.h\"\n#include \"cpu/vec.h\"\n#include \"layers/y/c.h\"\n",
    "source/cli/a.cpp": "#include \"runtime/b.h\"\n",
}
BAD = {
    "include/oort/c.h": "#include <armadillo>\n",
    "include/oort/c_network.h": "#include <time.h>\n",
    "include/oort/d.h": "#include <gtest/gtest.h>\n",
    "include/oort/e.h": "#include \"core/b.h\"\n",
    "source/core/c.cpp": "#include \"graph/b.h\"\n",
    "source/cpu/c.cpp": "# include \"cuda/b.h\"\n",
    "source/graph/c.cpp": "#include \"parser/b.h\"\n",
    "parser/c.cpp": "#include \"layers/b.h\"\n",
    "layers/c.cu": "#include \"runtime/b.h\"\n",
    "source/runtime/c.h": "#include \"source/core/b.h\"\n",
}


class CheckIncludesTest(unittest.TestCase):
    def check(self, files):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                path = pathlib.Path(folder) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            return subprocess.run([sys.executable, SCRIPT, folder], capture_output=True, text=True, timeout=60)

    def test_good(self):
        done = self.check(GOOD)
        self.assertEqual((done.returncode, done.stdout), (0, ""))

    def test_each_bad_one(self):
        for name, text in BAD.items():
            done = self.check({**GOOD, name: text})
            self.assertEqual(done.returncode, 1, name)
            self.assertTrue(done.stdout.startswith(f"{name}:1: "), done.stdout)
            self.assertEqual(done.stdout.count("\n"), 1)

    def complains(self, files, path, text):
        done = self.check({**GOOD, **files})
        self.assertEqual(done.returncode, 1)
        self.assertTrue(done.stdout.startswith(path), done.stdout)
        self.assertIn(text, done.stdout)
        self.assertEqual(done.stdout.count("\n"), 1)

    def test_two_folders_include_each_other(self):
        files = {"layers/x/e.h": "", "layers/y/d.h": '#include "layers/x/e.h"\n'}
        self.complains(files, "layers/x/a.cpp:3:", "layers/x and layers/y include each other, see layers/y/d.h:1")

    def test_a_folder_without_a_level(self):
        self.complains({"source/news/a.h": ""}, "source/news:1:", "give it a level")
        self.complains({"news/a.h": ""}, "news:1:", "give it a level")

    def test_a_kernel_of_one_family(self):
        files = {"source/cpu/k.h": "", "source/cpu/k.cpp": '#include "cpu/k.h"\n',
                 "layers/x/b.cpp": '#include "cpu/k.h"\n'}
        self.complains(files, "source/cpu/k.h:1:", "only layers/x uses it")
        shared = {**files, "layers/y/b.cpp": '#include "cpu/k.h"\n'}
        self.assertEqual(self.check({**GOOD, **shared}).stdout, "")

    def test_an_operator_without_a_test_at_its_path(self):
        files = {"layers/x/b.cpp": "OORT_LAYERS(b) {}\n"}
        self.complains(files, "layers/x/b.cpp:1:", "test/layers/x/b_test.cpp")
        self.assertEqual(self.check({**GOOD, **files, "test/layers/x/b_test.cpp": ""}).stdout, "")

    def test_two_classes_of_one_name(self):
        named = lambda space: f"namespace oort {{\n{space}\nstruct Twice final : Base {{\n}};\n"
        first = {"layers/x/b.h": named("")}
        self.complains({**first, "parser/b.h": named("")}, "layers/x/b.h:3:", "oort::Twice is in parser/b.h, too")
        self.assertEqual(self.check({**GOOD, **first, "parser/b.h": named("namespace {")}).stdout, "")

    def test_maps_of_the_docs(self):
        levels = {"source/core": 0, "source/text": 1, "source/cpu": 1, "source/cuda": 1, "source/weights": 1,
                  "source/media": 1, "source/collectives": 2, "source/graph": 2, "parser": 3, "layers": 4,
                  "source/decoder": 4, "source/runtime": 5, "source/tokenizer": 5, "source/chat_template": 5,
                  "source/limits": 5, "source/llm": 6, "source/grammar": 6, "source/quantize": 6,
                  "source/llm_quantize": 6, "source/openai": 7, "source/c_api": 8, "source/serve": 8, "source/cli": 9}
        page = lambda levels: {"docs/architecture.md": "".join(f"| {n} | `{f}` | x |\n" for f, n in levels.items())}
        self.assertEqual(self.check({**GOOD, **page(levels)}).stdout, "")
        self.complains(page({**levels, "source/cli": 6}), "docs/architecture.md:23:", "source/cli is on level 9")
        del levels["source/llm"]
        self.complains(page(levels), "docs/architecture.md:1:", "lacks source/llm")
        folders = [name.removeprefix("source/") for name in [*levels, "source/llm"] if "/" in name]
        readme = {"source/README.md": "".join(f"| `{name}` | x |\n" for name in folders)}
        self.assertEqual(self.check({**GOOD, **readme}).stdout, "")
        self.complains({"source/README.md": readme["source/README.md"] + "| `attic` | x |\n"},
                       "source/README.md:1:", "differ in attic")


if __name__ == "__main__":
    unittest.main()
