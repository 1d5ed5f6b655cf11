# SPDX-License-Identifier: MIT
"""The scripts of a release: what tools/sbom writes, what tools/check-glibc refuses, and that versions agree."""
import hashlib
import json
import pathlib
import re
import shutil
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


def cmake_options():
    """Options and variables that the build knows."""
    files = [ROOT / "CMakeLists.txt", *(ROOT / "cmake").glob("*.cmake")]
    text = "\n".join(path.read_text(encoding="utf-8") for path in files)
    return set(re.findall(r"^\s*(?:option|set)\((OORT_\w+)", text, re.MULTILINE))


# What vcpkg's own functions are called with, one call a line.
VCPKG = r"""cmake_minimum_required(VERSION 3.22)
foreach(name cmake_configure cmake_install cmake_config_fixup fixup_pkgconfig install_copyright)
  cmake_language(EVAL CODE "function(vcpkg_${name})\n message(\"vcpkg_${name};\${ARGN}\")\n endfunction()")
endforeach()
set(CURRENT_PORT_DIR "@PORT@")
set(CURRENT_PACKAGES_DIR "@SCRATCH@")
set(FEATURES core @FEATURES@)
include("@PORT@/portfile.cmake")
"""


class Recipes(unittest.TestCase):
    def calls(self, *features):
        port = ROOT / "packaging/vcpkg/oort"
        with tempfile.TemporaryDirectory() as scratch:
            script = pathlib.Path(scratch) / "run.cmake"
            text = VCPKG.replace("@PORT@", str(port)).replace("@SCRATCH@", scratch)
            script.write_text(text.replace("@FEATURES@", " ".join(features)))
            done = subprocess.run(["cmake", "-P", script], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        found = (line.split(";") for line in done.stderr.splitlines() if line.startswith("vcpkg_"))
        return {name: arguments for name, *arguments in found}

    @unittest.skipUnless(shutil.which("cmake"), "cmake is not here")
    def test_the_port_of_vcpkg_calls_what_it_should(self):
        for cuda, features in (("OFF", ()), ("ON", ("cuda",))):
            calls = self.calls(*features)
            configured = calls["vcpkg_cmake_configure"]
            self.assertEqual(pathlib.Path(configured[configured.index("SOURCE_PATH") + 1]), ROOT)
            self.assertIn(f"-DOORT_CUDA={cuda}", configured)
            self.assertEqual(calls["vcpkg_cmake_config_fixup"], ["CONFIG_PATH", "lib/cmake/oort"])
            self.assertEqual(calls["vcpkg_install_copyright"], ["FILE_LIST", str(ROOT / "LICENSE")])

    def test_recipes_name_options_that_exist(self):
        for path in ("packaging/vcpkg/oort/portfile.cmake", "packaging/conan/conanfile.py", "tools/release",
                     "deploy/Containerfile", "deploy/Containerfile.cuda", "pyproject.toml"):  # fmt: skip
            text = (ROOT / path).read_text(encoding="utf-8")
            named = set(re.findall(r"-D(OORT_\w+)=|\"(OORT_\w+)\":|^(OORT_\w+) = ", text, re.MULTILINE))
            named = {name for group in named for name in group if name}
            self.assertTrue(named and named <= cmake_options(), f"{path}: {named - cmake_options()}")

    def test_conan_takes_all_that_the_build_reads(self):
        text = (ROOT / "packaging/conan/conanfile.py").read_text(encoding="utf-8")
        for name in ("CMakeLists.txt", "cmake", "include", "source", "parser", "layers", "LICENSE"):
            self.assertRegex(text, rf'"{name}(/\*)?"')


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
