# SPDX-License-Identifier: MIT
"""Conan 2: builds the library of the clone that this file lies in.  conan create packaging/conan"""
import os
import re

from conan import ConanFile
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain
from conan.tools.files import copy, load


class OortConan(ConanFile):
    name = "oort"
    license = "MIT"
    description = "Neural networks and language models from C++ and C, without a framework"
    settings = "os", "arch", "compiler", "build_type"
    options = {"openmp": [True, False], "cuda": [True, False]}
    default_options = {"openmp": False, "cuda": False}
    requires = "nlohmann_json/[>=3.11 <4]"

    def set_version(self):
        text = load(self, os.path.join(self.recipe_folder, "..", "..", "CMakeLists.txt"))
        self.version = re.search(r"project\(oort VERSION ([\d.]+)", text)[1]

    def export_sources(self):
        root = os.path.join(self.recipe_folder, "..", "..")
        for pattern in ("CMakeLists.txt", "LICENSE", "CHANGELOG.md", "cmake/*", "include/*", "source/*", "parser/*",
                        "layers/*"):
            copy(self, pattern, root, self.export_sources_folder)

    def layout(self):
        # As deep as other builds of a clone: ccache then finds what these have compiled.
        self.folders.build = "build"
        self.folders.generators = os.path.join("build", "generators")

    def generate(self):
        CMakeDeps(self).generate()
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables.update({
            "OORT_TESTS": False, "OORT_CLI": False, "OORT_SERVE": "OFF", "OORT_MPI": "OFF", "OORT_UNITY": True,
            "OORT_INSTALL": True, "OORT_OPENMP": bool(self.options.openmp), "OORT_PACKAGE": True,
            "OORT_CUDA": "ON" if self.options.cuda else "OFF", "CMAKE_DISABLE_FIND_PACKAGE_GTest": True,
        })
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        CMake(self).install()

    def package_info(self):
        # The package has a CMake file of its own, with oort::oort, oort::c and oort::c_static.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs.append(os.path.join("lib", "cmake", "oort"))
        self.cpp_info.libs = ["oort-c"]
