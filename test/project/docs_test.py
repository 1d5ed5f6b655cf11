#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Pages for people: links lead somewhere, lines and paragraphs are short, tables are what the data gives."""
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LONGEST_LINE, LONGEST_PARAGRAPH = 120, 8


def pages():
    found = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("*/README.md"), *ROOT.glob("*/*/README.md")]
    kept = sorted({path for path in found if not path.relative_to(ROOT).parts[0].startswith(("build", "."))})
    return {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in kept}


def marked_lines(text):
    """(number, line, whether it stands in a fenced block)"""
    fence = None
    for number, line in enumerate(text.splitlines(), 1):
        opened = re.match(r"\s*(```+|~~~+)", line)
        if opened and fence is None:
            fence = opened[1]
            yield number, line, True
        elif opened and opened[1] == fence:
            fence = None
            yield number, line, True
        else:
            yield number, line, fence is not None


def anchors(text):
    """As GitHub makes them of headings."""
    seen = {}
    for _, line, fenced in marked_lines(text):
        heading = None if fenced else re.match(r"#{1,6}\s+(.*)", line)
        if heading:
            words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1])
            slug = re.sub(r"[^\w\- ]", "", words.strip().lower()).replace(" ", "-")
            count = seen.get(slug, 0)
            seen[slug] = count + 1
            yield f"{slug}-{count}" if count else slug


def links(text):
    for number, line, fenced in marked_lines(text):
        if fenced or line.startswith("    "):
            continue
        plain = re.sub(r"`[^`]*`", "``", line)
        for target in re.findall(r"\]\(([^)\s]+)\)|^\[[^\]]+\]: (\S+)", plain):
            yield number, target[0] or target[1]


def paragraphs(text):
    """(number of the first line, how many lines): prose and items of lists, no tables, code, headings or comments"""
    start, count = 0, 0
    for number, line, fenced in marked_lines(text):
        prose = line.strip() and not fenced and not re.match(r"\||#|<!--|    |!\[", line)
        item = re.match(r"\s*([-*]|\d+\.)\s", line)
        if count and (not prose or item):
            yield start, count
            count = 0
        if prose:
            start, count = (number, 1) if not count else (start, count + 1)
    if count:
        yield start, count


class LinksTest(unittest.TestCase):
    def test_every_link_leads_somewhere(self):
        texts = pages()
        broken = []
        for page, text in texts.items():
            for number, target in links(text):
                if re.match(r"[a-z]+:", target):
                    continue
                name, _, anchor = target.partition("#")
                path = (ROOT / page).parent / name if name else ROOT / page
                if not path.exists():
                    broken.append(f"{page}:{number}: {target}: no such file")
                elif anchor and anchor not in anchors(path.read_text(encoding="utf-8")):
                    broken.append(f"{page}:{number}: {target}: no such heading")
        self.assertGreater(len(texts), 15)
        self.assertEqual(broken, [], "\n" + "\n".join(broken))

    def test_paths_in_the_text_exist(self):
        """But for those of examples, which readers would write themselves."""
        examples = re.compile(r"my_|your_|hard_tanh_shrink|NAME|FAMILY")
        folder = r"(?:source|layers|parser|test|tools|include|docs|bench|demos|models|cmake)/[\w./-]*"
        wrong = []
        for page, text in pages().items():
            for number, line in enumerate(text.splitlines(), 1):
                for path in re.findall(rf"`({folder})`", line):
                    if not (ROOT / path).exists() and not examples.search(path):
                        wrong.append(f"{page}:{number}: no {path}")
        self.assertEqual(wrong, [], "\n" + "\n".join(wrong))

    def test_the_index_has_every_page(self):
        index = pages()["docs/README.md"]
        listed = {target for _, target in links(index)}
        missing = [path.name for path in ROOT.glob("docs/*.md") if path.name != "README.md" and path.name not in listed]
        self.assertEqual(missing, [], "docs/README.md does not list these")

    def test_anchors_are_found(self):
        self.assertEqual(list(anchors("# A `b` c\n```\n# no\n```\n## A b c\n")), ["a-b-c", "a-b-c-1"])


class StyleTest(unittest.TestCase):
    def test_lines_are_short(self):
        long = []
        for page, text in pages().items():
            for number, line in enumerate(text.splitlines(), 1):
                if len(line) > LONGEST_LINE:
                    long.append(f"{page}:{number}: {len(line)} characters")
        self.assertEqual(long, [], "\n" + "\n".join(long))

    def test_paragraphs_are_short(self):
        long = []
        for page, text in pages().items():
            long += [f"{page}:{first}: {count} lines" for first, count in paragraphs(text) if count > LONGEST_PARAGRAPH]
        self.assertEqual(long, [], "\n" + "\n".join(long))

    def test_paragraphs_are_counted(self):
        self.assertEqual(list(paragraphs("# h\na\nb\n- c\n  d\n\n| t |\n```\nx\n```\ne\n")), [(2, 2), (4, 2), (11, 1)])

    def test_every_page_shows_something(self):
        for page, text in pages().items():
            if page.startswith("docs/"):
                self.assertRegex(text, r"(?m)^```|^!\[|^    \S", f"{page} has neither an example nor a picture")


class TablesTest(unittest.TestCase):
    def test_tables_are_what_the_data_gives(self):
        done = subprocess.run([sys.executable, ROOT / "tools" / "performance-tables", "--check"], capture_output=True,
                              text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main()
