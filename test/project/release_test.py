# SPDX-License-Identifier: MIT
"""The scripts of a release: what tools/sbom writes, what tools/check-glibc refuses, and that versions agree."""
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TOOLS = ROOT / "tools"


def version():
    return re.search(r"project\(oort VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[1]


def promised_glibc():
    return re.search(r"^floor=(\S+)", (TOOLS / "check-glibc").read_text(), re.MULTILINE)[1]


class Sbom(unittest.TestCase):
    def test_it_lists_files_with_checksums_and_parts(self):
        with tempfile.TemporaryDirectory() as scratch:
            path = pathlib.Path(scratch) / "oort.tar.gz"
            path.write_bytes(b"packed")
            wheel = path.with_name("oort.whl")
            wheel.write_bytes(b"a wheel")
            done = subprocess.run([TOOLS / "sbom", "1.2.3", path, wheel], capture_output=True, text=True, check=True)
        document = json.loads(done.stdout)
        self.assertEqual(document["spdxVersion"], "SPDX-2.3")
        self.assertEqual(document["packages"][0]["versionInfo"], "1.2.3")
        sums = {entry["algorithm"]: entry["checksumValue"] for entry in document["files"][0]["checksums"]}
        self.assertEqual(sums["SHA256"], hashlib.sha256(b"packed").hexdigest())
        self.assertIn("nanobind", [entry["name"] for entry in document["packages"]])
        known = {entry["SPDXID"] for entry in document["packages"] + document["files"]} | {"SPDXRef-DOCUMENT"}
        for relation in document["relationships"]:
            self.assertIn(relation["spdxElementId"], known)
            self.assertIn(relation["relatedSpdxElement"], known)


    def libstdcxx(self, compiler):
        """The version of libstdc++ that is listed where this compiler builds; None where there is none."""
        env = os.environ | {"CXX": str(compiler)}
        done = subprocess.run([TOOLS / "sbom", "1.2.3"], env=env, capture_output=True, text=True, check=True)
        packages = json.loads(done.stdout)["packages"]
        return next((entry["versionInfo"] for entry in packages if entry["name"] == "libstdc++"), None)

    def test_the_library_of_the_compiler_is_that_of_the_compiler(self):
        with tempfile.TemporaryDirectory() as scratch:
            compiler = pathlib.Path(scratch) / "g++-99"
            compiler.write_text('#!/bin/sh\ncase "$1" in\n-dumpfullversion) echo 99.1.0;;\n'
                                f"-print-file-name=libstdc++.a) echo {scratch}/libstdc++.a;;\nesac\n")
            compiler.chmod(0o755)
            self.assertEqual(self.libstdcxx(compiler), "99.1.0")
            self.assertIsNone(self.libstdcxx(pathlib.Path(scratch) / "none"))
        if shutil.which("g++") and shutil.which("dpkg-query"):
            major = subprocess.run(["g++", "-dumpversion"], capture_output=True, text=True, check=True).stdout.strip()
            self.assertRegex(self.libstdcxx("g++") or "", rf"^{major}\.")


class Release(unittest.TestCase):
    """tools/release with all that it calls replaced: what it calls, and what it lists."""

    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.scratch.name)
        for name in ("tools/release", "tools/sbom", "pyproject.toml"):
            (self.root / name).parent.mkdir(exist_ok=True)
            shutil.copy(ROOT / name, self.root / name)
        (self.root / "CMakeLists.txt").write_text("project(oort VERSION 1.2.3 LANGUAGES CXX)\n")
        (self.root / "CHANGELOG.md").write_text("# Changes\n\n## 1.2.3\n")
        called = f'echo "$(basename "$0") $*" >>{self.root}/log\n'
        for name in ("tools/install-deps", "tools/check-glibc", "test/project/packages", "test/project/bare-root"):
            self.write(name, called)
        built = 'if [ "$1" = --build ]; then touch "$2/liboort-mpi.so"; else mkdir -p "$4"; fi\n'
        self.write("bin/cmake", called + built)
        self.write("bin/cpack", called + "touch oort.deb oort.tar.gz\nmv oort.deb oort.tar.gz \"$4\"\n")
        self.write("tools/wheel", called + 'for folder; do :; done; mkdir -p "$folder"; touch "$folder/oort.whl"\n')
        self.write("bin/nvcc", called)

    def tearDown(self):
        self.scratch.cleanup()

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#!/bin/sh\nset -e\n" + text)
        path.chmod(0o755)

    def release(self, *arguments, code=0):
        """The names that the list of checksums has, and what was called."""
        env = os.environ | {"PATH": f"{self.root}/bin:{os.environ['PATH']}"}
        done = subprocess.run([self.root / "tools/release", *arguments], env=env, capture_output=True, text=True)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        if code != 0:
            return done.stderr
        sums = (self.root / "build-release/out/SHA256SUMS").read_text()
        return {line.split("./")[1] for line in sums.splitlines()}, (self.root / "log").read_text()

    def test_all_files_are_listed_and_tried(self):
        files, log = self.release("--no-cuda")
        self.assertEqual(files, {"oort.deb", "oort.tar.gz", "oort.whl", "oort-1.2.3.spdx.json"})
        for name in ("check-glibc", "wheel", "packages", "bare-root"):
            self.assertRegex(log, rf"(?m)^{name} ")
        listed = json.loads((self.root / "build-release/out/oort-1.2.3.spdx.json").read_text())["files"]
        self.assertEqual({entry["fileName"] for entry in listed}, {"./oort.deb", "./oort.tar.gz", "./oort.whl"})

    def test_with_cuda_there_are_two_wheels(self):
        files, log = self.release()
        self.assertEqual(files, {"oort.deb", "oort.tar.gz", "oort.whl", "cuda/oort.whl", "oort-1.2.3.spdx.json"})
        self.assertRegex(log, r"(?m)^wheel --python python3 --test .*/out$")
        self.assertRegex(log, r"(?m)^wheel --python python3 --cuda --test .*/out/cuda$")
        self.assertRegex(log, r"(?m)^packages .* -cuda$")
        listed = json.loads((self.root / "build-release/out/oort-1.2.3.spdx.json").read_text())
        self.assertIn("./cuda/oort.whl", {entry["fileName"] for entry in listed["files"]})
        files, _ = self.release("--cuda-only")
        self.assertEqual(files, {"oort.deb", "oort.tar.gz", "cuda/oort.whl", "oort-1.2.3.spdx.json"})

    def test_plugins_are_built_and_held_to_the_promise(self):
        log = self.release("--no-cuda", "--no-wheel")[1]
        self.assertRegex(log, r"(?m)^cmake --build .* oort_plugins$")
        self.assertRegex(log, r"(?m)^check-glibc .*/liboort-mpi\.so$")

    def test_the_wheel_can_be_left_out(self):
        files, log = self.release("--no-cuda", "--no-wheel")
        self.assertEqual(files, {"oort.deb", "oort.tar.gz", "oort-1.2.3.spdx.json"})
        self.assertNotRegex(log, r"(?m)^wheel ")

    def test_each_python_has_a_wheel(self):
        (self.root / "build-release/out").mkdir(parents=True)
        (self.root / "build-release/out/old.whl").touch()
        _, log = self.release("--no-cuda", "--step", "wheels", "--step", "lists", "--python", "py1", "--python", "py2")
        self.assertEqual(re.findall(r"(?m)^wheel --python (\S+)", log), ["py1", "py2"])
        self.assertFalse((self.root / "build-release/out/old.whl").exists())

    def test_what_fails_ends_it(self):
        self.write("test/project/packages", "exit 3\n")
        self.release("--no-cuda", code=3)
        self.write("test/project/packages", "exit 0\n")
        self.write("test/project/bare-root", "exit 77\n")  # it could not be tried here
        self.release("--no-cuda")
        (self.root / "CHANGELOG.md").write_text("# Changes\n")
        self.assertIn("## 1.2.3", self.release(code=1))
        (self.root / "CHANGELOG.md").write_text("# Changes\n\n## 1.2.30 (2026-01-01)\n")
        self.assertIn("no section '## 1.2.3'", self.release(code=1))

    def test_what_is_not_released_yet_wants_a_trial(self):
        (self.root / "CHANGELOG.md").write_text("# Changes\n\n## Not released yet\n\n## 1.2.3\n")
        self.assertIn("Not released yet", self.release("--no-cuda", code=1))
        self.release("--no-cuda", "--trial")
        (self.root / "CHANGELOG.md").write_text("# Changes\n\n## Not released yet\n")  # its number is there already
        self.release("--no-cuda", "--trial")

    def test_steps_are_done_one_after_another(self):
        self.assertNotIn("wheel", self.steps("packages"))
        self.assertNotRegex(self.steps("wheels"), r"(?m)^(cpack|packages) ")
        files, log = self.release("--no-cuda", "--step", "lists")
        self.assertEqual(files, {"oort.deb", "oort.tar.gz", "oort.whl", "oort-1.2.3.spdx.json"})
        self.assertNotRegex(self.steps("try"), r"(?m)^(cmake|wheel) ")
        # What was made again is listed no more until it is listed again.
        self.steps("packages")
        self.assertFalse((self.root / "build-release/out/SHA256SUMS").exists())
        self.assertIn("packages wheels lists try", self.release("--step", "tests", code=2))

    def steps(self, *names):
        """What these steps call."""
        (self.root / "log").unlink(missing_ok=True)
        env = os.environ | {"PATH": f"{self.root}/bin:{os.environ['PATH']}"}
        command = [self.root / "tools/release", "--no-cuda", *(word for name in names for word in ("--step", name))]
        subprocess.run(command, env=env, capture_output=True, check=True)
        log = self.root / "log"
        return log.read_text() if log.exists() else ""

    @unittest.skipUnless(shutil.which("git"), "git is not here")
    def test_sources_are_those_of_the_commit(self):
        def git(*arguments):
            identity = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
            subprocess.run(["git", "-C", self.root, *identity, *arguments], check=True, capture_output=True)

        (self.root / ".gitignore").write_text("build-*/\nlog\n")
        git("init", "-q")
        git("add", "-A")
        git("commit", "-q", "-m", "all")
        self.assertIn("oort-1.2.3-source.tar.gz", self.release("--no-cuda")[0])
        with tarfile.open(self.root / "build-release/out/oort-1.2.3-source.tar.gz") as archive:
            self.assertIn("oort-1.2.3/CMakeLists.txt", archive.getnames())
        (self.root / "CHANGELOG.md").write_text("# Changes\n\n## 1.2.3\n\nMore.\n")
        self.assertIn("has changes", self.release("--no-cuda", code=1))
        self.release("--no-cuda", "--trial")


# A Python that makes environments with itself in them, builds a wheel by touching it, and runs no program.
PYTHON = r"""#!/bin/sh
set -e
for last; do :; done
case "$*" in
  "-c "*) echo @TAG@ ;;
  "-m venv "*)
    mkdir -p "$last/bin"
    ln -s "$0" "$last/bin/python"
    printf '#!/bin/sh\n' >"$last/bin/pip"
    printf '#!/bin/sh\nmkdir -p "$6"\ncp "$7" "$6"\n' >"$last/bin/auditwheel"
    cp "$last/bin/pip" "$last/bin/oort"
    chmod +x "$last"/bin/*
    ;;
  "-m build "*) touch "$5/@NAME@" ;;
esac
"""


class Wheel(unittest.TestCase):
    TAG = f"manylinux_{promised_glibc().replace('.', '_')}_x86_64.whl"

    def check(self, wheel, *names, size=0, options=()):
        """What tools/check-wheel.py says of a wheel of this name and size with files of these names."""
        with tempfile.TemporaryDirectory() as scratch:
            path = pathlib.Path(scratch) / wheel
            with zipfile.ZipFile(path, "w") as archive:
                for name in (*names, "oort-1.2.3.data/scripts/oort"):
                    archive.writestr(name, b"")
                archive.writestr("oort/filling", bytes(size))
            command = [sys.executable, TOOLS / "check-wheel.py", *options, path]
            done = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(done.returncode, 1 if done.stderr else 0)
        return done.stderr

    def test_its_name_is_true(self):
        own, stable = "oort/_oort.cpython-311-x86_64-linux-gnu.so", "oort/_oort.abi3.so"
        tag = self.TAG
        self.assertEqual(self.check(f"oort-1.2.3-cp311-cp311-{tag}", own), "")
        self.assertEqual(self.check(f"oort-1.2.3-cp312-abi3-{tag}", stable), "")
        self.assertIn("versions of Python", self.check(f"oort-1.2.3-cp312-abi3-{tag}", own))
        self.assertIn("versions of Python", self.check(f"oort-1.2.3-cp311-cp311-{tag}", stable))
        self.assertIn("manylinux", self.check("oort-1.2.3-cp311-cp311-linux_x86_64.whl", own))

    def test_it_needs_no_newer_glibc_than_is_promised(self):
        major, minor = map(int, promised_glibc().split("."))
        wheel, own = "oort-1.2.3-cp312-abi3-{}_x86_64.whl", "oort/_oort.abi3.so"
        older, newer = (f"manylinux_{major}_{other}" for other in (minor - 2, minor + 1))
        self.assertEqual(self.check(wheel.format(older), own), "")
        self.assertIn(f"needs glibc {major}.{minor + 1}", self.check(wheel.format(newer), own))
        self.assertEqual(self.check(wheel.format(f"{newer}_x86_64.{older}"), own), "")

    def test_it_is_not_too_large(self):
        wheel, own = f"oort-1.2.3-cp312-abi3-{self.TAG}", "oort/_oort.abi3.so"
        self.assertIn("bytes, more than 15000000", self.check(wheel, own, size=15_000_000))
        self.assertEqual(self.check(wheel, own, size=15_000_000, options=["--cuda"]), "")

    def build(self, root, tag, name):
        """The wheels that are in the folder behind a run of tools/wheel, with a Python that writes one of this name."""
        python = root / "python"
        python.write_text(PYTHON.replace("@TAG@", tag).replace("@NAME@", name))
        python.chmod(0o755)
        command = [root / "tools/wheel", "--python", python, root / "wheels"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout.splitlines()[-1], str(root / f"wheels/{name}"))
        return {path.name for path in (root / "wheels").iterdir()}

    def test_each_python_has_its_own(self):
        with tempfile.TemporaryDirectory() as scratch:
            root = pathlib.Path(scratch)
            (root / "tools").mkdir()
            shutil.copy(TOOLS / "wheel", root / "tools/wheel")
            (root / "tools/install-deps").write_text("#!/bin/sh\n")
            (root / "tools/install-deps").chmod(0o755)
            first, second = "oort-1.2.3-cp311-cp311-any.whl", "oort-1.2.3-cp312-abi3-any.whl"
            self.assertEqual(self.build(root, "3.11", first), {first})
            self.assertEqual(self.build(root, "3.12", second), {first, second})
            newer = second.replace("1.2.3", "1.2.4")
            self.assertEqual(self.build(root, "3.12", newer), {first, newer})
            tools = {path.name for path in (root / "build-wheel").iterdir()}
            self.assertEqual(tools, {"tools-3.11", "tools-3.12"})

    def test_it_brings_no_library(self):
        wheel = f"oort-1.2.3-cp312-abi3-{self.TAG}"
        self.assertIn("libgomp", self.check(wheel, "oort/_oort.abi3.so", "oort.libs/libgomp-1.so"))


class Glibc(unittest.TestCase):
    def test_what_is_no_program_is_refused(self):
        done = subprocess.run([TOOLS / "check-glibc", __file__], capture_output=True, text=True)
        self.assertNotEqual(done.returncode, 0)

    def test_the_promise_is_the_one_of_the_pages(self):
        for page in ("docs/stability.md", "docs/packages.md"):
            self.assertIn(f"glibc {promised_glibc()}", (ROOT / page).read_text(encoding="utf-8"), page)


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
set(PORT oort)
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

    def test_recipes_name_targets_and_files_that_exist(self):
        """The targets and components that recipes tell of are those that the CMake package has."""
        config = (ROOT / "cmake/oort-config.cmake.in").read_text(encoding="utf-8")
        install = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "cmake").glob("*.cmake"))
        install += "".join((ROOT / name).read_text(encoding="utf-8") for name in ("CMakeLists.txt",
                                                                                 "source/media/CMakeLists.txt"))
        for name in ("packaging/vcpkg/oort/usage", "packaging/conan/test_package/CMakeLists.txt",
                     "packaging/conan/conanfile.py", "docs/packages.md"):  # fmt: skip
            text = (ROOT / name).read_text(encoding="utf-8")
            targets = set(re.findall(r"oort::(\w+)", text))
            self.assertTrue(targets, name)
            for target in targets:
                self.assertRegex(install + config, rf"oort::{target}\b|EXPORT_NAME {target}\b", name)
        modules = {path.name.removesuffix(".pc.in") for path in (ROOT / "cmake").glob("*.pc.in")}
        usage = (ROOT / "packaging/vcpkg/oort/usage").read_text(encoding="utf-8")
        self.assertEqual(modules, set(re.findall(r"oort(?:-[a-z]+)*", usage.partition("modules")[2])))
        library = re.search(r'cpp_info\.libs = \["oort-(\w+)"\]',
                            (ROOT / "packaging/conan/conanfile.py").read_text(encoding="utf-8"))  # fmt: skip
        self.assertIn(f"OUTPUT_NAME oort-{library[1]}", install)

    def test_conan_takes_all_that_the_build_reads(self):
        text = (ROOT / "packaging/conan/conanfile.py").read_text(encoding="utf-8")
        for name in ("CMakeLists.txt", "cmake", "include", "source", "parser", "layers", "LICENSE"):
            self.assertRegex(text, rf'"{name}(/\*)?"')


class Abi(unittest.TestCase):
    """tools/check-abi on a header that keeps its promise, and on those that break it."""

    def check(self, before="", after=""):
        with tempfile.TemporaryDirectory() as scratch:
            root = pathlib.Path(scratch)
            for name in ("tools/check-abi", "source/c_api/liboort-c.map"):
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, root / name)
            for folder in ("include/oort", "test/c_api/abi"):
                shutil.copytree(ROOT / folder, root / folder)
            headers = sorted((root / "include/oort").glob("c_*.h"))
            self.assertEqual(sum(before in path.read_text() for path in headers if before), 1 if before else 0)
            for path in headers if before else ():
                path.write_text(path.read_text().replace(before, after, 1))
            done = subprocess.run([root / "tools/check-abi"], capture_output=True, text=True)
        if done.returncode == 77:
            self.skipTest(done.stdout)
        return done.returncode

    def test_what_is_added_breaks_nothing(self):
        self.assertEqual(self.check(), 0)
        version = "OORT_C_API const char* oort_version(void);"
        self.assertEqual(self.check(version, version + "\nOORT_C_API int oort_more(void);"), 0)

    def test_what_is_changed_or_taken_away_is_found(self):
        self.assertEqual(self.check("int32_t oort_abi_version(void)", "int64_t oort_abi_version(void)"), 1)
        self.assertEqual(self.check("OORT_C_API void oort_free(void* memory);"), 1)
        self.assertEqual(self.check("OORT_C_API void oort_request_free(oort_request* request);"), 1)

    def test_each_architecture_has_the_same_reference(self):
        files = [ROOT / f"test/c_api/abi/liboort-c.{name}.abi" for name in ("aarch64", "x86_64")]
        texts = [re.sub(r"(?<=architecture=)'[^']*'", "", path.read_text(encoding="utf-8")) for path in files]
        self.assertEqual(*texts)


class Versions(unittest.TestCase):
    def test_the_changelog_has_the_version(self):
        self.assertIn(f"\n## {version()}", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))

    def test_recipes_have_the_version(self):
        manifest = json.loads((ROOT / "packaging/vcpkg/oort/vcpkg.json").read_text())
        self.assertEqual(manifest["version-semver"], version())

    def test_nothing_else_says_another_version(self):
        """CMakeLists.txt has it; what cannot read it there is held to it."""
        minor = version().rpartition(".")[0]
        patterns = ["README.md", "docs/*.md", "packaging/**/*", "deploy/*", "test/consumer/**/CMakeLists.txt",
                    "include/oort/*.h", "source/core/version.h", "source/cli/version.h", "pyproject.toml",
                    "python/oort/*.py", "demos/**/CMakeLists.txt"]  # fmt: skip
        paths = [path for pattern in patterns for path in ROOT.glob(pattern)]
        texts = {path: path.read_text(encoding="utf-8") for path in paths
                 if path.is_file() and path.name != "measurements.md"}  # fmt: skip
        short = r"find_package\(oort (\d[\d.]*)|takes (\d[\d.]*)\.x alone|has the soname `(\d[\d.]*)`"
        whole = (r'"(\d+\.\d+\.\d+)": the version|"version(?:-semver)?": "([^"]*)"|/// "(\d[\d.]+)"$|'
                 r'library: "(\d[\d.]+)"|__version__ = "([^"]*)"')  # fmt: skip
        found = 0
        for path, text in texts.items():
            for said in re.findall(short, re.sub(r"\s+", " ", text)):
                found += 1
                self.assertEqual("".join(said), minor, path)
            for said in re.findall(whole, text, re.MULTILINE):
                found += 1
                self.assertEqual("".join(said), version(), path)
        self.assertGreaterEqual(found, 12)  # else the patterns above are no longer those of the files

    def test_what_reads_the_version_finds_it(self):
        text = (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
        release = (TOOLS / "release").read_text(encoding="utf-8")
        expression = re.search(r"sed -n '(s/\^project[^']*)'", release)[1]
        done = subprocess.run(["sed", "-n", expression], input=text, capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout.strip(), version())
        wheel = re.search(r"regex = \'\'\'(.*)\'\'\'", (ROOT / "pyproject.toml").read_text(encoding="utf-8"))[1]
        self.assertEqual(re.search(wheel, text)["value"], version())
        conan = (ROOT / "packaging/conan/conanfile.py").read_text(encoding="utf-8")
        self.assertEqual(re.search(re.search(r're\.search\(r"(.*)", text', conan)[1], text)[1], version())

    def test_the_soname_has_the_number_of_the_abi(self):
        header = re.search(r"#define OORT_ABI_VERSION (\d+)", (ROOT / "include/oort/c_network.h").read_text())[1]
        self.assertIn(f"set(OORT_C_ABI {header})", (ROOT / "cmake/OortC.cmake").read_text())


if __name__ == "__main__":
    sys.exit(unittest.main())
