# SPDX-License-Identifier: MIT
"""Examples: of docstrings and of docs/python.md; and what a type checker reads."""
import ast
import doctest
import inspect
import pathlib
import re

import numpy
import pytest

import oort

NAMES = {"oort": oort, "numpy": numpy, **vars(oort._tables)}
PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "python.md"


def documented():
    """Examples of all that the package shows, and of its tables."""
    found = {}
    for part in (oort, oort._tables):
        for test in doctest.DocTestFinder(exclude_empty=True).find(part, part.__name__, module=False, extraglobs={}):
            if test.examples:
                found.setdefault(test.docstring, test)
    return list(found.values())


@pytest.mark.parametrize("example", documented(), ids=lambda found: found.name)
def test_examples_of_docstrings_run(example):
    example.globs.update(NAMES)
    if "model" in "".join(line.source for line in example.examples):
        example.globs["model"] = oort.LanguageModel("models/storyteller", threads=1)
    assert doctest.DocTestRunner().run(example).failed == 0


def blocks():
    text = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    return re.findall(r"^```python\n(.*?)^```", text, re.S | re.M)


def test_examples_of_the_page_run(tmp_path):
    names = {}
    assert blocks()
    for block in blocks():
        if block.startswith("# needs "):
            compile(block, "docs/python.md", "exec")
        else:
            exec(compile(block.replace("/tmp/", f"{tmp_path}/"), "docs/python.md", "exec"), names)


@pytest.mark.parametrize("name", oort.__all__)
def test_everything_public_has_a_docstring(name):
    assert inspect.getdoc(getattr(oort, name))


def members():
    """Public functions and properties of public classes, those of the extension module included."""
    for name in oort.__all__:
        shown = getattr(oort, name)
        for base in inspect.getmro(shown) if inspect.isclass(shown) else ():
            for member, value in vars(base).items() if base.__module__.partition(".")[0] == "oort" else ():
                if not member.startswith("_") and (callable(value) or inspect.isdatadescriptor(value)):
                    yield f"{name}.{member}"


@pytest.mark.parametrize("name", sorted(set(members())))
def test_every_public_member_has_a_docstring(name):
    kind, member = name.split(".")
    lines = (inspect.getdoc(getattr(getattr(oort, kind), member)) or "").splitlines()
    # Without one of ours, the extension module tells how it is called.
    assert [line for line in lines if line and not line.startswith((f"{member}(", "(self"))], name


def test_stubs_name_what_the_module_has():
    stub = pathlib.Path(oort.__file__).with_name("_oort.pyi")
    tree = ast.parse(stub.read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            found = getattr(oort._oort, node.name)
            for member in node.body:
                if isinstance(member, ast.FunctionDef):
                    assert hasattr(found, member.name), f"{node.name}.{member.name}"
        elif isinstance(node, ast.FunctionDef):
            assert hasattr(oort._oort, node.name), node.name
    stubbed = {node.name for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    assert {name for name in dir(oort._oort) if not name.startswith("__")} <= stubbed
