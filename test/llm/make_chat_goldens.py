#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes chat_goldens.json: small templates and what transformers renders them to.

    test/llm/make_chat_goldens.py

Each case is one line of the lists below, or a whole template of our own in the style of a family of models. Needs
transformers and jinja2 3.1.6.
"""
import datetime
import json
import pathlib

import transformers.utils.chat_template_utils as hf


class FixedTime(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls(2024, 7, 6, 15, 4, 5)


MESSAGES = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": " Grüße, \"Welt\" 😀 <b>\n"},
    {"role": "assistant", "content": "Yes.", "tool_calls": [{"function": {"name": "f",
                                                                          "arguments": {"x": 1,
                                                                              "y": [True, None, 2.0]}}}]},
    {"role": "user", "content": "bye"},
]
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object",
                                                                       "properties": {"b": 1, "a": {"é": 1e-7}}}}}]
VARIABLES = {
    "bos_token": "<s>", "eos_token": "</s>", "n": 7, "f": 2.5, "t": True, "none_value": None, "s": "Hello World",
    "d": {"b": 2, "a": 1, "items": 5, "c d": [1, 2]}, "l": [3, 1, 2], "e": [], "words": ["b", "A", "c", "a"],
    "users": [{"name": "Zed", "age": 3, "on": True}, {"name": "amy", "age": 30, "on": False},
              {"name": "Bob", "age": 3, "on": True}],
    "big": 12345678901234567890123, "zero": 0, "blank": "  x \u00a0", "lines": "a\nb\r\n\nc", "greek": "ΑΣ ΣΑΣ ß ǆ İ",
}

PRINTED = r"""
n + 1, n - 1, n * 2, n / 2, n // 2, n % 4, n ** 2, -n, +n
-7 // 2, -7 % 3, 7 // -2, 7 % -3, 7.5 // 2, -7.5 // 2, -7.5 % 2, 2 ** -1, 0.1 + 0.2
1e16, 1e15, 123456789.123, 1e-5, 0.0001, 1e100, 2.0, -0.0, f * 1e10
n / zero
n // zero
s + 1
s ~ 1 ~ none ~ t ~ f
'a' 'b' "c"
'%s is %d and %5.2f|%-5s|%05d|%x' % ('a', 3, 2.5, 'b', 42, 255)
'{} {1} {0!r}'.format(1, 2)
'{} {!r} {:>5} {:<5}| {:^5} {:05d} {:.2f} {:,} {a}'.format(1, 'x', 'r', 'l', 'c', 42, 3.14159, 1234567, a='k')
'{0[a]} {0[b]} {1.name}'.format(d, users[0])
l, (1,), (), {'a': 1, 2: [none, true, 'it\'s', "q\"", 'both\'"']}
[1, 'a\n\t\\', 1.0, {'x': none}]
true == 1, 1 == 1.0, none == false, 'a' == 'a', [1] == [1], (1,) == [1], {'a': 1} == {'a': 1.0}
1 < 2 < 3, 1 < 3 < 2, 'a' < 'b', [1, 2] < [1, 3], 2 >= 2.0
'a' < 1
none < 1
1 in l, 9 not in l, 'ell' in s, 'b' in d, 2 in d, '' in ''
1 in s
1 in 5
l[0], l[-1], l[5], l['x'], s[0], s[-1], d['b'], d['nope'], d.b, d.nope
l[1:], l[:-1], l[::-1], l[::2], l[5:], s[1:4], s[::-1], s[-3:], s[:100], l[-100:2], blank[3:]
none[1:]
d[1:]
undefined_thing[1:]
d['items'], d.get('items'), d.get('zz'), d.get('zz', 9)
d.items()
d.keys(), d.values(), d.items()
d.items() | list
none.x, none['x'], n.x, true.x
nothing
nothing.x
nothing['x']
nothing()
nothing + 1
nothing ~ 'x'
nothing == nothing2, nothing != 1, not nothing, nothing is defined, nothing|length, nothing|list, [nothing]
nothing < 1
nothing|int
nothing|trim, nothing|upper, nothing|default('x'), nothing|default, nothing|string
nothing|tojson
'x' in nothing
nothing in 'x'
nothing and 1, nothing or 1, 1 and 2, 0 or '', none or none
(1 if false) is undefined, 1 if true else 2, 'a' if none else 'b' if false else 'c'
l|length, s|length, d|length, greek|length, l|count
n|length
l|first, l|last, e|first is defined, s|first, d|first
l|sort, l|sort(reverse=true), words|sort, words|sort(case_sensitive=true), \
users|sort(attribute='name')|map(attribute='name')|list
users|sort(attribute='age,name')|map(attribute='name')|join(',')
[1, 'a']|sort
words|unique|list, words|min, words|max, l|sum, users|sum(attribute='age'), e|min is defined
users|map(attribute='name')|join(', '), users|map('length')|list, words|map('upper')|list, \
users|map(attribute='zz', default='-')|list
users|selectattr('on')|map(attribute='name')|list, users|rejectattr('on')|list|length, \
users|selectattr('age', 'gt', 5)|list
users|selectattr('name', 'equalto', 'Bob')|list, users|selectattr('zz', 'defined')|list, l|select('odd')|list, \
l|reject('odd')|list
users|selectattr('on') is iterable, users|selectattr('zz') and 'true', (users|selectattr('zz'))[0] is defined
(users|selectattr('on'))|length
users|groupby('age')
l|join, l|join('-'), words|join(', '), d|join(',')
d|dictsort, d|dictsort(reverse=true), {'B': 1, 'a': 2}|dictsort, {'B': 1, 'a': 2}|dictsort(true), \
{'x': 2, 'y': 1}|dictsort(by='value')
d|items|list, nothing|items|list
l|items|list
l|batch(2)|list, l|batch(2, 'x')|list, l|slice(2)|list, l|slice(2, 'x')|list
l|reverse|list, s|reverse, l|list, s|list|length, d|list
s|upper, s|lower, s|title, 'hELLO wORLD-x'|title, s|capitalize, blank|trim ~ '|', 'xxaxx'|trim('x'), \
s|replace('l', 'L'), s|replace('l', 'L', 1)
5|replace('5', 6), n|string ~ '', f|string, none|string, [1]|string
lines|indent, lines|indent(2, true), lines|indent('> ', first=true, blank=true)
'3.7'|int, 'x'|int, 'x'|int(5), '0x1f'|int(base=16), 3.99|int, -3.99|int, true|int, none|int, '12_3'|int, ' 42 '|int
'3.5'|float, 'x'|float, 'x'|float(1.0), 3|float, none|float
2.5|round, 3.5|round, 2.567|round(2), 2.1|round(method='ceil'), 2.9|round(0, 'floor'), 7|round, 1234.5|round(-2)
-3|abs, -2.5|abs
'%s-%s'|format(1, 'x'), '%(a)s'|format(a=3)
'<b>'|safe, '<b>'|e, '<b>'|safe|e, '<b>'|escape|escape, ('<b>'|safe) + '<i>', '<i>' + ('<b>'|safe), \
('<b>'|safe) ~ '<i>', ['<b>'|safe]
('<b>'|safe).replace('b', '<'), ('<b>'|safe)|upper, ('<b>'|safe)|replace('b', '<'), ('<b>'|safe)|tojson
s|truncate(8), s|truncate(8, true), s|truncate(5, true, '..'), 'short'|truncate(3, leeway=0), s|wordcount, \
s|center(21)
d|tojson, l|tojson, s|tojson, none|tojson, t|tojson, f|tojson, 2.0|tojson, e|tojson, {}|tojson, big|tojson, \
greek|tojson, '\x7f\x01'|tojson
d|tojson(indent=2), {'a': [], 'b': {}, 'c': [1]}|tojson(indent=4), [1, [2]]|tojson(indent=0), l|tojson(indent='--')
greek|tojson(true), greek|tojson(ensure_ascii=true), d|tojson(sort_keys=true), d|tojson(separators=(',', ':')), \
'😀'|tojson(true)
{1: 2, none: 3, true: 4, 1.5: 6}|tojson
{(1, 2): 3}|tojson
range(3)|tojson
namespace()|tojson
big, [big], big ~ 1
big == big, big is number, big is integer
range(5)|list, range(1, 5)|list, range(5, 1, -2)|list, range(3), range(1, 3, 1), 2 in range(3)
range(100001)|length
range(1, 2, 0)
range('a')
dict(a=1, b=2), dict([('x', 1)]), dict({'q': 1}, r=2)
s.upper(), s.lower(), s.title(), s.swapcase(), s.capitalize(), 'ab'.center(5) ~ '|', 'abc'.center(6, '*'), \
'ab'.ljust(4, '.'), 'ab'.rjust(4), '-42'.zfill(6)
s.split(), s.split('o'), s.split('o', 1), s.rsplit('o', 1), ' a  b '.split(), ' a b c '.split(none, 1), \
' a b c '.rsplit(none, 1), ''.split(), ''.split(',')
s.split('')
s.strip('Hd'), '  x '.strip() ~ '|', '  x '.lstrip() ~ '|', '  x '.rstrip() ~ '|', blank.strip() ~ '|', \
'xyx'.lstrip('x'), 'xyx'.rstrip('xy')
s.startswith('He'), s.startswith(('x', 'H')), s.endswith('ld'), s.startswith('World', 6), s.endswith('lo', 0, 5)
s.startswith(1)
s.find('o'), s.rfind('o'), s.find('zz'), s.index('o'), s.count('o'), s.count(''), greek.find('Σ'), s.find('o', 5)
s.index('zz')
s.partition(' '), s.rpartition('o'), s.partition('zz'), s.rpartition('zz'), s.removeprefix('He'), s.removesuffix('ld')
s.replace('o', '0'), s.replace('o', '0', 1), 'ab'.replace('', '-'), ', '.join(words), '-'.join('abc'), \
lines.splitlines(), lines.splitlines(true)
', '.join(l)
'ab'.isalpha(), '12'.isdigit(), 'a1'.isalnum(), ' '.isspace(), 'A'.isupper(), 'a'.islower(), 'Ab Cd'.istitle(), \
''.isalpha(), 'é'.isalpha(), '½'.isnumeric(), 'x_1'.isidentifier(), '٣'.isdecimal(), 'a\n'.isprintable(), \
'é'.isascii()
greek.lower(), greek.upper(), greek.title(), greek.swapcase(), greek.capitalize(), 'ŉ ﬁ'|upper, 'ǆ'.title(), \
'ΣΑ'.lower(), 'Aʹ'.upper()
'a\tb'.expandtabs(4), 'x'.encode is defined, s.nope is defined
l.append(4)
d.update({'x': 1})
d.pop('b')
l.append is defined, d.pop is defined, l.append, d.setdefault is undefined
l.index(1), l.count(3), (1, 2, 1).count(1), l.copy(), d.copy()
l.index(99)
s.__class__
s.__class__.__mro__
s.__class__ is defined
n is number, f is float, n is integer, t is boolean, t is number, t is integer, s is string, l is sequence, \
s is sequence, d is mapping, d is sequence, n is sequence
none is none, nothing is none, l is iterable, d is iterable, n is iterable, s is iterable, range is callable, \
s is callable, nothing is sequence, nothing is iterable
t is true, t is false, 1 is true, n is odd, n is even, 9 is divisibleby 3, 9 is divisibleby(4), 'a' is lower, \
'A' is upper, n is sameas n, none is sameas none
n is eq 7, n is ne 7, n is gt 3, n is lessthan 3, n is ge(7), 2 is in l, 'x' is not in l, 'upper' is filter, \
'zz' is filter, 'odd' is test, s is escaped, n is not none
d.keys() is iterable, d.keys() is sequence, d.items() is mapping, (d|items) is iterable, (l|map('string')) is sequence
strftime_now('%Y-%m-%d'), strftime_now('%d %b %Y'), \
strftime_now('%B %d, %Y %H:%M:%S %p %A %a %j %y %I %e %-d %U %w %%')
raise_exception('no: ' ~ n)
l|map('nope')|list
l|select('nope')|list
not t, not not t, not n == 7, not (n == 7), n not in [7]
1 + 2 * 3 - 4 / 2, (1 + 2) * 3, 2 ** 3 ** 2, -2 ** 2, 10 - 2 - 3, 'a' * 3, 2 * 'ab', [1] * 2, [1] + [2], (1,) + (2,)
[1] + (2,)
1 ~ 2 + 3
-s
l|join(', ')|upper ~ '!' if l else 'none'
s[1:3]|upper, l[1:]|length, d['c d'][1], users[0].name.upper()[0], users[-1]['age'] + 1
messages|length, messages[-1].role, messages[0]['content'], messages[2].tool_calls[0].function.arguments|tojson, \
tools is none, documents is none, documents is defined
messages[1].content|trim|tojson, messages|map(attribute='role')|join(','), \
messages|selectattr('role', 'equalto', 'user')|list|length
loop is defined, caller is defined, varargs is defined
namespace(a=1).a, namespace({'b': 2}, c=3).c, namespace().zz is defined
namespace(_x=1)
joiner(', ') is callable
(l|first) + (l|last), l|first + 1, (n|string)[0], n|string|length
{'a': 1}.a, {'a': 1}['a'], {'a': {'b': 2}}.a.b, [[1, 2], [3]][0][1], 'x'.upper().lower()
d | length > 2 and l | length == 3, n > 5 == t, (n > 5) == t
1_000, 0x1f, 0b101, 0o17, 1_0.5e1
lipsum is defined, cycler is defined, range is defined, dict is callable
[undefined_a, 1]|map('default', 'x')|list, [none, 1]|map('string')|list
'a,b'|replace(',', '\n'), 'a\\nb', "tab\there", 'nul\x00'|length, '\u00e9\U0001F600', 'q\q'
users[0], users|first, (users|last).name
'abc'|list|join('|'), {'a': 1}|list, 'äöü'[1], 'äöü'|reverse, 'äöü'[::2]
f|int + 1, (f * 2)|int, f // 1, 7.0 // 2, 1 / 3, 2 / 1, 10 % 3.5
l is eq [3, 1, 2], l == [3, 1, 2], d == {'a': 1, 'b': 2, 'items': 5, 'c d': [1, 2]}
"""

BLOCKS = [
    "{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.revindex "
    "}}{{ loop.revindex0 }}{{ loop.previtem }}{{ loop.nextitem }} {% endfor %}",
    "{% for x in e %}a{% else %}empty{% endfor %}{% for x in l if x > 1 %}{{ x }}{{ loop.length }}{% else %}none{% "
    "endfor %}{% for x in l if x > 9 %}a{% else %}none{% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}{% for k, v in d|dictsort %}{{ k }}{% endfor %}{% for k in "
    "d %}{{ k }}{% endfor %}{% for c in 'häß' %}[{{ c }}]{% endfor %}",
    "{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
    "{% for a, b in [(1, 2, 3)] %}{{ a }}{% endfor %}",
    "{% for x in n %}{% endfor %}",
    "{% for x in nothing %}a{% else %}b{% endfor %}",
    "{% for x in l %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% if x == 1 %}{% break %}{% endif %}{% endfor %}",
    "{% for x in l %}{% if loop.index == 2 %}{% break %}{% endif %}{{ x }}{% endfor %}",
    "{% break %}",
    "{% for x in l %}{% for y in e %}{% else %}{% break %}{% endfor %}{{ x }}{% endfor %}",
    "{% set x = 1 %}{% for i in l %}{% set x = i %}{{ x }}{% endfor %}{{ x }}",
    "{% set ns = namespace(x=1, seen=[]) %}{% for i in l %}{% set ns.x = ns.x + i %}{% set ns.seen = ns.seen + [i] "
    "%}{% endfor %}{{ ns.x }}{{ ns.seen }}",
    "{% set n.x = 1 %}",
    "{% set ns = namespace() %}{% set ns._x = 1 %}",
    "{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set (c, d2) = [3, 4] %}{{ c }}{{ d2 }}",
    "{% set ns = namespace() %}{% set ns.a, b = 1, 2 %}{{ ns.a }}{{ b }}",
    "{% if n > 5 %}{% set x = 'in' %}{% endif %}{{ x }}{% if false %}{% set y = 1 %}{% endif %}{{ y is defined }}",
    "{% set x %}a{{ n }}b{% endset %}[{{ x }}]{% set y | upper %}abc{% endset %}{{ y }}{% set z %}{% set inner = 1 "
    "%}{% endset %}{{ inner is defined }}",
    "{% macro m(a, b=2, c=n) %}[{{ a }},{{ b }},{{ c }}]{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(1, c=5) }}{{ m() "
    "}}{{ m(b=1, a=2) }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(b=2) }}",
    "{% macro m(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, x=4) }}{{ m.name }}{{ m.arguments }}",
    "{% macro m(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ m(5) }}",
    "{% macro f(k) %}{% if k > 0 %}{{ k }}{{ f(k - 1) }}{% endif %}{% endmacro %}{{ f(5) }}",
    "{% macro m() %}{{ late }}{% endmacro %}{% set late = 'L' %}{{ m() }}",
    "{% for i in l %}{{ m() }}{% macro m() %}x{{ i }}{% endmacro %}{{ m() }}{% endfor %}",
    "{% for i in l %}{% macro m() %}x{{ i }}{% endmacro %}{{ m() }}{% endfor %}{{ m is defined }}",
    "{% macro m() %}{{ loop is defined }}{% endmacro %}{% for i in l %}{{ m() }}{% endfor %}",
    "{% macro box(t) %}<{{ t }}|{{ caller() }}>{% endmacro %}{% call box('a') %}body {{ n }}{% endcall %}",
    "{% macro each(items) %}{% for i in items %}{{ caller(i, loop.index) }}{% endfor %}{% endmacro %}{% call(x, k) "
    "each(l) %}{{ k }}:{{ x }} {% endcall %}",
    "{% macro m() %}{{ caller is defined }}{{ caller }}{% endmacro %}{{ m() }}",
    "{% filter upper %}abc {{ s }}{% endfilter %}{% filter replace('a', 'b')|upper %}aa{% endfilter %}",
    "{% with a = 1, b = n %}{{ a }}{{ b }}{% set c = 1 %}{% endwith %}{{ a is defined }}{{ c is defined }}",
    "{% with n = n + 1 %}{{ n }}{% endwith %}{{ n }}",
    "{% generation %}gen {{ n }}{% set q = 1 %}{% endgeneration %}{{ q is defined }}",
    "{% block name %}in {{ n }}{% endblock %}",
    "{% for item in [[1, [2, [3]]]] recursive %}{{ loop.depth }}{{ item if item is number else loop(item) }}{% endfor "
    "%}",
    "{% for x in l %}{{ loop.cycle('a', 'b') }}{{ loop.changed(x > 1) }}{% endfor %}",
    "{% raw %}{{ not }} {% this %}{% endraw %}{# comment {{ x }} #}end",
    "  {% if true %}\n    a\n  {% endif %}\nb\n",
    "{%- if true -%}  a  {%- endif -%}  b",
    "a\n\n  {{- n -}}\n\n b",
    "a {%+ if true %} b {%+ endif +%}\n c",
    "line\r\n{% if true %}\r\nx\r\n{% endif %}\r\n",
    "{% print n, s %}",
    "{% include 'x' %}",
    "{% if false %}{{ x|nope }}{% endif %}ok",
    "{% if true %}{{ x|nope }}{% endif %}",
    "{{ x|nope }}",
    "{{ x is nope }}",
    "{% for x in l %}{{ x|nope if false else x }}{% endfor %}",
    "{% nope %}",
    "{% if %}{% endif %}",
    "{{ }}",
    "{{ 1 + }}",
    "{{ (1 }}",
    "{% if true %}",
    "{% endif %}",
    "{{ 'a }}",
    "{# open",
    "{{ a b }}",
    "{% for loop in l %}{% endfor %}",
    "{% set 1 = 2 %}",
    "{% macro m(a=1, b) %}{% endmacro %}",
    "{{ f(a=1, 2) }}",
    "{% set j = joiner('|') %}{% for x in l %}{{ j() }}{{ x }}{% endfor %}",
    "{% set ns = namespace(m=none) %}{% for x in l %}{% if ns.m is none or x > ns.m %}{% set ns.m = x %}{% endif %}{% "
    "endfor %}{{ ns.m }}{{ ns }}"[:-8], "{% set x = l|map('string')  %}{{ x|join(',') }}{{ x|join(',') }}!",
    "{{ namespace(**{'a': 1}).a }}{{ range(*[1, 4])|list }}",
    "{{ range(*5) }}",
    "{% for i in [1] %}{{ n }}{% endfor %}{% set n = 1 %}{{ n }}",
    "{{ n }}{% for i in [1] %}{{ n }}{% endfor %}{% set n = 1 %}{{ n }}",
    "{% for i in [1] %}{{ n }}{% endfor %}{% if t %}{% set n = 1 %}{% endif %}{{ n }}",
    "{% macro m() %}{{ n }}{% endmacro %}{{ m() }}{% set n = 1 %}{{ m() }}",
    "{% filter upper %}{{ s }}{% endfilter %}|{% set s = 'x' %}",
    "{% for i in l %}{% with %}{{ s }}{% endwith %}{% set s = i %}{{ s }}{% endfor %}",
    "{% set x = n|items %}{{ 'fine' }}{{ x|first is defined }}",
    "{% set x = [{'a': 1}, 2]|map(attribute='a.b.c') %}fine{{ x|first is defined }}{{ x|list }}",
    "{% set x = l|map('nope') %}fine",
    "{{ ('<b>'|safe)|list }}{{ ('<b>'|safe)[0] ~ '<' }}{{ '%s' % nothing }}{{ 'x' % range(2) }}",
    "{{ [] is filter }}",
    "{{ l|truncate(3) }}{{ true.real }}{{ true.imag }}",
    "{{ [1, 2, 3,] }}{{ {'a': 1,} }}{{ (1, 2,) }}{{ dict(a=1,) }}",
]

FAMILIES = {
    "chatml": "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ "
              "'<|im_start|>system\nBe helpful<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + "
              "message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ "
              "'<|im_start|>assistant\n' }}{% endif %}",
    "instruct": "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{% set system = messages[0]['content'] %}{% "
                "set rest = messages[1:] %}{% else %}{% set system = none %}{% set rest = messages %}{% endif %}{% for "
                "m in rest %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must "
                "alternate') }}{% endif %}{% if m['role'] == 'user' %}{{ '[INST] ' + ((system + '\n\n') if loop.last "
                "and system else '') + m['content'] | trim + ' [/INST]' }}{% elif m['role'] == 'assistant' %}{{ ' ' ~ "
                "m['content'] ~ eos_token }}{% endif %}{% endfor %}",
    "headers": "{{- bos_token }}\n{%- set date = strftime_now('%d %b %Y') if strftime_now is defined else 'x' %}\n{%- "
               "if tools is not none %}\n    {{- 'Tools (' ~ date ~ '):\n' }}\n    {%- for t in tools %}\n        {{- "
               "t | tojson(indent=4) }}\n        {{- '\n\n' }}\n    {%- endfor %}\n{%- endif %}\n{%- for m in messages "
               "%}\n    {%- if m.tool_calls is defined and m.tool_calls %}\n        {%- for c in m.tool_calls %}\n     "
               "       {{- '<call>' }}{{- c.function.name }}{%- for k, v in c.function.arguments | items %}\n          "
               "      {{- ' ' + k + '=' + (v | tojson if v is not string else v) }}{%- endfor %}{{- '</call>' }}\n     "
               "   {%- endfor %}\n    {%- else %}\n        {{- '<|' + m.role + '|>\n' + m.content | trim + '<|end|>\n' "
               "}}\n    {%- endif %}\n{%- endfor %}\n{%- if add_generation_prompt %}\n    {{- '<|assistant|>\n' "
               "}}\n{%- endif %}\n",
    "thinking": "{%- set ns = namespace(last=messages|length - 1) %}\n{%- for m in messages[::-1] %}{%- set index = "
                "(messages|length - 1) - loop.index0 %}{%- if m.role == 'user' and ns.last == messages|length - 1 "
                "%}{%- set ns.last = index %}{%- endif %}{%- endfor %}\n{%- for m in messages %}{%- set content = "
                "m.content %}{%- if m.reasoning_content is string %}{%- set thought = m.reasoning_content %}{%- elif "
                "'</think>' in content %}{%- set thought = "
                "content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') %}{%- set content = "
                "content.split('</think>')[-1].lstrip('\n') %}{%- endif %}{{- m.role + ': ' + content }}{%- if thought "
                "is defined and loop.index0 > ns.last %}{{- ' (' + thought.strip() + ')' }}{%- endif %}{{- '\n' }}{%- "
                "endfor %}\n{%- if enable_thinking is defined and enable_thinking is false %}{{- "
                "'<think>\n\n</think>\n\n' }}{%- endif %}",
}


def render(case):
    try:
        text, _ = hf.render_jinja_template(
            [case.get("messages", MESSAGES)], tools=case.get("tools"), chat_template=case["template"],
            add_generation_prompt=case.get("add_generation_prompt", False), **case.get("variables", VARIABLES))
        return {**case, "text": text[0]}
    except Exception as error:
        kind = type(error).__name__
        return {**case, "error": str(error) if kind == "TemplateError" else "", "kind": kind}


def main():
    hf.datetime = FixedTime
    cases = [{"template": "{% for part in [" + line + "] %}{{ part }}¦{% endfor %}"}
             for line in PRINTED.replace("\\\n", "").strip().split("\n")]
    cases += [{"template": template} for template in BLOCKS]
    conversations = [MESSAGES, MESSAGES[1:2], [], [{"role": "user", "content": "q"},
                                                   {"role": "assistant", "content": "<think>\nhm\n</think>\n\nYes",
                                                    "thinking": "deep"}]]
    for template in FAMILIES.values():
        for messages in conversations:
            for more in ({}, {"tools": TOOLS, "add_generation_prompt": True},
                         {"variables": {**VARIABLES, "enable_thinking": False}}):
                cases.append({"template": template, "messages": messages, **more})
    golden = {"messages": MESSAGES, "variables": VARIABLES, "cases": [render(case) for case in cases]}
    # As text, so that nothing reads the numbers before Oort does.
    for holder in [golden, *golden["cases"]]:
        for name in ("messages", "tools", "variables"):
            if name in holder:
                holder[name] = json.dumps(holder[name], ensure_ascii=False)
    path = pathlib.Path(__file__).resolve().parent / "chat_goldens.json"
    path.write_text(json.dumps(golden, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    print(f"{len(cases)} cases, {sum('kind' in case for case in golden['cases'])} of which raise")


if __name__ == "__main__":
    main()
