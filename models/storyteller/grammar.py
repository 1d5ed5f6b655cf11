# SPDX-License-Identifier: MIT
"""A small grammar for texts: `(a|b)` picks one, `[a]` is there half of the time, `@rule` stands for a rule, `$slot` for
a word of the story. `expand` gives a text whose slots are still empty: its shape; `fill` puts the words in."""
import functools
import re


def _sequence(text, at, closing):
    """Alternatives up to one of the closing characters: [[part, …], …] and where they end."""
    choices, parts, plain = [], [], at
    while at < len(text) and text[at] not in closing:
        sign = text[at]
        if sign in "([":
            parts.append(text[plain:at])
            inner, at = _sequence(text, at + 1, ")" if sign == "(" else "]")
            parts.append(inner if sign == "(" else [[""], *inner])
            plain = at = at + 1
        elif sign == "|":
            parts.append(text[plain:at])
            choices.append(parts)
            parts, plain = [], at + 1
            at += 1
        else:
            at += 1
    if closing and at == len(text):
        raise ValueError(f"no {closing} in {text!r}")
    parts.append(text[plain:at])
    return [*choices, parts], at


@functools.cache
def parse(text):
    return _sequence(text, 0, "")[0]


def _walk(choices, rules, random):
    out = []
    for part in random.choice(choices):
        if isinstance(part, list):
            out.append(_walk(part, rules, random))
        else:
            for i, piece in enumerate(re.split(r"@(\w+)", part)):
                out.append(_walk(parse(rules[piece]), rules, random) if i % 2 else piece)
    return "".join(out)


def expand(text, rules, random):
    shape = _walk(parse(text), rules, random)
    return re.sub(r" +", " ", shape).replace(" ,", ",").replace(" .", ".").strip()


def fill(shape, slots):
    """The text, with a capital letter where a sentence begins. Speech that a `said` follows ends in , ? or ! so that it
    does not."""
    text = re.sub(r"\$(\w+)", lambda found: slots[found[1]], shape)
    text = re.sub(r"\ba ([aeio])", r"an \1", text)
    return re.sub(r'((?:^|[.!?] |\." |\n)"?)([a-z])', lambda found: found[1] + found[2].upper(), text)
