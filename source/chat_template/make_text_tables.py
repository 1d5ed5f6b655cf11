#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes text_tables.inc: what Python's str methods know about characters.

    source/chat_template/make_text_tables.py

The answers are those of the Python that runs this (its Unicode version is written into the file).
"""
import pathlib
import unicodedata

CHARACTERS = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]
COLUMNS = 140


def ranges(belongs):
    found = []
    for character in CHARACTERS:
        if belongs(character):
            code = ord(character)
            if found and found[-1][1] == code - 1:
                found[-1][1] = code
            else:
                found.append([code, code])
    return found


def mapping(change, usual):
    """Runs of single characters that move by the same distance, one in `step`; the rest by name.
    Left out is who changes as usual."""
    runs, long = [], []
    for character in CHARACTERS:
        changed = change(character)
        if changed == usual(character):
            continue
        code = ord(character)
        if len(changed) > 1:
            long.append((code, [ord(c) for c in changed]))
            continue
        delta = ord(changed) - code
        if runs and runs[-1][3] == delta:
            first, last, step, _ = runs[-1]
            if code - last == step or (first == last and code - last <= 2):
                runs[-1] = [first, code, code - last, delta]
                continue
        runs.append([code, code, 1, delta])
    return runs, long


def case_ignorable(character):
    return ("A" + character + "\u03a3").lower()[-1] == "\u03c2" and (character + "\u03a3").lower()[-1] == "\u03c3"


def wrap(items):
    line, lines = "   ", []
    for item in items:
        if len(line) + len(item) + 2 > COLUMNS:
            lines.append(line)
            line = "   "
        line += " " + item + ","
    return "\n".join(lines + [line])


def main():
    out = [
        "// SPDX-License-Identifier: MIT",
        f"// Made by make_text_tables.py (Unicode {unicodedata.unidata_version}): do not edit.",
        "// clang-format off",
    ]
    sets = {
        "kAlpha": str.isalpha,
        "kDecimal": str.isdecimal,
        "kDigit": str.isdigit,
        "kNumeric": str.isnumeric,
        "kUnprintable": lambda c: not c.isprintable(),
        "kLower": str.islower,
        "kUpper": str.isupper,
        "kTitle": lambda c: unicodedata.category(c) == "Lt",
        "kCaseIgnorable": case_ignorable,
    }
    for name, belongs in sets.items():
        pairs = ranges(belongs)
        out.append(f"constexpr TextRange {name}[] = {{")
        out.append(wrap(f"{{{a},{b - a}}}" for a, b in pairs))
        out.append("};")
    for name, change in {"ToLower": str.lower, "ToUpper": str.upper, "ToTitle": str.title}.items():
        runs, long = mapping(change, str.upper if name == "ToTitle" else str)
        out.append(f"constexpr TextShift k{name}[] = {{")
        out.append(wrap(f"{{{a},{b},{step},{delta}}}" for a, b, step, delta in runs))
        out.append("};")
        out.append(f"constexpr TextSpelling k{name}Long[] = {{")
        out.append(wrap("{%d,{%s}}" % (code, ",".join(map(str, (to + [0, 0])[:3]))) for code, to in long))
        out.append("};")
    out.append("// clang-format on")
    path = pathlib.Path(__file__).resolve().parent / "text_tables.inc"
    path.write_text("\n".join(out) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
