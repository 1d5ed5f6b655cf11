# SPDX-License-Identifier: MIT
"""Tables for terminals and notebooks."""
from typing import Iterable, Sequence


def count_text(number: float) -> str:
    """
    >>> count_text(1234567.0)
    '1.23M'
    """
    for unit in ("", "k", "M", "G", "T"):
        if abs(number) < 1000 or unit == "T":
            return f"{number:.3g}{unit}" if unit or number % 1 else f"{number:.0f}"
        number /= 1000
    raise AssertionError


def bytes_text(number: float) -> str:
    """
    >>> bytes_text(2048)
    '2.05 kB'
    """
    text = count_text(number)
    return f"{text} B" if text[-1].isdigit() else f"{text[:-1]} {text[-1]}B"


def seconds_text(seconds: float) -> str:
    """
    >>> seconds_text(0.00125)
    '1.25 ms'
    """
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size or unit == "µs":
            return f"{seconds / size:.3g} {unit}"
    raise AssertionError


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[int] = ()) -> str:
    """Columns of text, those in `right` to the right."""
    lines = [list(columns), *(list(row) for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]

    def line_text(line: Sequence[str]) -> str:
        places = (str.rjust if i in right else str.ljust for i in range(len(line)))
        return "  ".join(place(cell, width) for place, cell, width in zip(places, line, widths)).rstrip()

    return "\n".join([line_text(lines[0]), "  ".join("-" * width for width in widths), *map(line_text, lines[1:])])


def table_html(
    columns: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[int] = (), caption: str = ""
) -> str:
    """The same for a notebook."""
    import html

    def cells(tag: str, line: Sequence[str]) -> str:
        style = {True: ' style="text-align:right"', False: ' style="text-align:left"'}
        return "".join(f"<{tag}{style[i in right]}>{html.escape(cell)}</{tag}>" for i, cell in enumerate(line))

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    head = f"<thead><tr>{cells('th', columns)}</tr></thead>"
    return f"<table><caption>{html.escape(caption)}</caption>{head}<tbody>{body}</tbody></table>"
