# SPDX-License-Identifier: MIT
"""What liboort-c exports is what test/c_api/symbols.txt lists, and what the headers of C declare; all else is hidden.
Constants of the headers have the values of test/c_api/constants.txt: programs have them inside, and abidiff does not
see those of an enum that no function names.

    symbols_test.py LIBRARY [--write]
"""
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
LIST = HERE / "symbols.txt"
CONSTANTS = HERE / "constants.txt"
HEADERS = sorted((HERE.parent.parent / "include/oort").glob("c_*.h"))


def exported(library):
    """Names with the versions of their nodes, as the dynamic linker sees them."""
    done = subprocess.run(["readelf", "--dyn-syms", "--wide", library], capture_output=True, text=True, check=True)
    found = set()
    for line in done.stdout.splitlines():
        fields = line.split()
        if len(fields) >= 8 and fields[6] != "UND" and fields[4] in ("GLOBAL",
                                                                     "WEAK") and not fields[7].startswith("OORT_C_"):
            found.add(fields[7].replace("@@", " ").replace("@", " "))
    return sorted(found)


def soname(library):
    done = subprocess.run(["readelf", "--dynamic", library], capture_output=True, text=True, check=True)
    return re.search(r"SONAME.*\[(.*)\]", done.stdout)[1]


def enumerators(text):
    """Lines NAME VALUE of the enums in headers without comments, and what is wrong with the others."""
    found, wrong = [], []
    for body in re.findall(r"\benum\b[^{;]*\{([^}]*)\}", text):
        for entry in filter(None, map(str.strip, body.split(","))):
            constant = re.fullmatch(r"(\w+)\s*=\s*(-?\d+)", entry)
            if constant:
                found.append(f"{constant[1]} {constant[2]}")
            else:
                wrong.append(f"{entry}: say the value of each constant, so that none moves when one is added")
    return found, wrong


def differences(found, path, lost):
    """What a list of names is not as it was promised."""
    if "--write" in sys.argv:
        path.write_text("\n".join(found) + "\n", encoding="utf-8")
    listed = path.read_text(encoding="utf-8").splitlines()
    wrong = [f"gone or moved: {name}; {lost}" for name in sorted(set(listed) - set(found))]
    return wrong + [f"new: {name}; add it to {path.name} (--write)" for name in sorted(set(found) - set(listed))]


def main():
    library = sys.argv[1]
    found = exported(library)
    header = "".join(path.read_text(encoding="utf-8") for path in HEADERS)
    text = re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)
    declared = sorted(re.findall(r"OORT_C_API[^;]*?\b(oort_\w+)\(", text))
    abi = re.search(r"#define OORT_ABI_VERSION (\d+)", header)[1]
    wrong = differences(found, LIST, "programs that use it no longer start")
    constants, unclear = enumerators(text)
    wrong += unclear + differences(constants, CONSTANTS, "programs that have it inside mean something else")
    names = [name.split()[0] for name in found]
    wrong += [f"declared, but not there: {name}" for name in declared if name not in names]
    wrong += [f"there, but not declared: {name}" for name in names if name not in declared and name.startswith("oort_")]
    if soname(library) != f"liboort-c.so.{abi}":
        wrong.append(f"the soname {soname(library)} is not that of ABI {abi}")
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
