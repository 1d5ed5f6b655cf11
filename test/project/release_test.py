# SPDX-License-Identifier: MIT
"""The scripts of a release: what tools/sbom writes, what tools/check-glibc refuses, and that versions agree."""
import hashlib
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TOOLS = ROOT / "tools"


def version():
    return re.search(r"project\(oort VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[1]


class Sbom(unittest.TestCase):
    def test_it_lists_files_with_checksums_and_parts(self):
        with tempfile.TemporaryDirectory() as scratch:
            path = pathlib.Path(scratch) / "oort.tar.gz"
            path.write_bytes(b"packed")
            done = subprocess.run([TOOLS / "sbom", "1.2.3", path], capture_output=True, text=True, check=True)
        document = json.loads(done.stdout)
        self.assertEqual(document["spdxVersion"], "SPDX-2.3")
        self.assertEqual(document["packages"][0]["versionInfo"], "1.2.3")
        sums = {entry["algorithm"]: entry["checksumValue"] for entry in document["files"][0]["checksums"]}
        self.assertEqual(sums["SHA256"], hashlib.sha256(b"packed").hexdigest())
        known = {entry["SPDXID"] for entry in document["packages"] + document["files"]} | {"SPDXRef-DOCUMENT"}
        for relation in document["relationships"]:
            self.assertIn(relation["spdxElementId"], known)
            self.assertIn(relation["relatedSpdxElement"], known)


class Glibc(unittest.TestCase):
    def test_what_is_no_program_is_refused(self):
        done = subprocess.run([TOOLS / "check-glibc", __file__], capture_output=True, text=True)
        self.assertNotEqual(done.returncode, 0)

    def test_the_promise_is_the_one_of_the_pages(self):
        floor = re.search(r"^floor=(\S+)", (TOOLS / "check-glibc").read_text(), re.MULTILINE)[1]
        for page in ("docs/stability.md", "docs/packages.md"):
            self.assertIn(f"glibc {floor}", (ROOT / page).read_text(encoding="utf-8"), page)


class Versions(unittest.TestCase):
    def test_the_changelog_has_the_version(self):
        self.assertIn(f"\n## {version()}", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))

    def test_recipes_have_the_version(self):
        manifest = json.loads((ROOT / "packaging/vcpkg/oort/vcpkg.json").read_text())
        self.assertEqual(manifest["version-semver"], version())

    def test_the_soname_has_the_number_of_the_abi(self):
        header = re.search(r"#define OORT_ABI_VERSION (\d+)", (ROOT / "include/oort/c.h").read_text())[1]
        self.assertIn(f"set(OORT_C_ABI {header})", (ROOT / "cmake/OortC.cmake").read_text())


if __name__ == "__main__":
    sys.exit(unittest.main())
