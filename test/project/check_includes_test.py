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
    "source/core/a.cpp": "#include <glog/logging.h>\n#include \"core/b.h\"\n",
    "source/cpu/a.cpp": "#include \"core/b.h\"\n",
    "layers/x/a.cpp": "#include \"parser/expression/b.h\"\n#include \"cpu/vec.h\"\n#include \"layers/y/c.h\"\n",
    "source/cli/a.cpp": "#include \"runtime/b.h\"\n",
}
BAD = {
    "include/oort/c.h": "#include <armadillo>\n",
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


if __name__ == "__main__":
    unittest.main()
