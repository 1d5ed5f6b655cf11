#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tools/docs builds a site without a warning, and without the network."""
import importlib.util
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
INSTALLED = all(importlib.util.find_spec(name) for name in ("mkdocs", "material"))


@unittest.skipUnless(INSTALLED, "mkdocs with the material theme is not installed (docs/requirements.txt)")
class SiteTest(unittest.TestCase):
    def test_it_is_built(self):
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, ROOT / "tools" / "docs", "--out", folder]
            done = subprocess.run(command, capture_output=True, text=True, timeout=600)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            site = pathlib.Path(folder, "site")
            for page in ("index.html", "CONTRIBUTING.html", "docs/architecture.html", "layers/index.html"):
                self.assertTrue((site / page).exists(), page)
            self.assertIn("docs/performance.html", (site / "index.html").read_text(encoding="utf-8"))


if __name__ == "__main__":
    unittest.main()
