# SPDX-License-Identifier: MIT
"""Templates made up at random, for tools/check-chat-templates --random."""

VARIABLES = {
    "s": "Hello World", "u": " Grüße ΑΣ ß\n\t", "n": 7, "z": 0, "m": -3, "f": 2.5, "t": True, "no": None,
    "l": [3, 1, 2], "ls": ["b", "A", "ä", ""], "e": [], "d": {"b": 2, "a": 1, "items": 5, "k k": [1, None]}, "ed": {},
    "nest": [[1, [2]], {"x": [True, None, 1.5]}, "q'\""], "fs": [1.0, -0.5, 1e20], "html": "<a href=\"x\">&'",
    "us": [{"name": "Zed", "age": 3, "on": True}, {"name": "amy", "age": 30}, {"name": "Bob", "age": 3, "x": {"y": 1}}],
}
NAMES = [*VARIABLES, "undef", "messages"]
STRINGS = r"'' 'a' 'o' ' ' '\n' 'Hello' 'name' 'age' 'x.y' '1' '%s-%s' '{}' 'ä' ','".replace("' '", "'_'").split()
NUMBERS = "0 1 2 -1 3 10 7".split()
ATOMS = "true false none 1.5 -0.5 [] {} () 1e3 2.0".split()
FILTERS = """
    upper lower title capitalize trim length list first last sort unique|list join reverse string int float abs
    round tojson items|list dictsort min max sum safe e forceescape default default('D') default('D',true) join(',')
    replace('o','0') map('upper')|list map(attribute='name')|list map('string')|join('|') select|list reject|list
    select('string')|list selectattr('on')|list selectattr('age','gt',5)|list rejectattr('on')|list batch(2)|list
    slice(2)|list groupby('age') indent indent(2,true) truncate(5) wordcount center(12) tojson(indent=2)
    tojson(sort_keys=true) sort(reverse=true) sort(attribute='name') sort(attribute='age') round(1) int(3)
    float(1.5) count attr('name') map(attribute='age')|sum format(1,2) trim('H') reverse|list map('length')|list
    map('tojson')|list dictsort(true) dictsort(by='value') min(attribute='age') sum(start=1) map('default','q')|list
    map(attribute='zz',default=0)|list replace(1,2) tojson(true) tojson(separators=(',',':')) round(0,'floor')
    round(method='ceil')""".split()
TESTS = """
    defined undefined none string number integer float boolean mapping sequence iterable true false odd even lower
    upper divisibleby(2) eq(7) ne(1) gt(2) in([1,7]) callable sameas(none) escaped filter test""".split()
MEMBERS = """
    upper() lower() strip() lstrip() rstrip('d') split() split('o') rsplit('o',1) startswith('H')
    endswith(('d','x')) replace('l','L',1) find('o') count('l') title() capitalize() isdigit() isalpha() islower()
    items()|list keys()|list values() get('a') get('zz') get('zz',1) index(1) join(ls) partition('_') splitlines()
    zfill(14) center(15,'*') swapcase() format(1,b=2) removeprefix('He') isspace() isupper() append(1) pop() copy()
    real is_integer() name age x x.y isidentifier() rfind('o') ljust(12) rjust(13,'-') expandtabs() isnumeric()
    istitle() rpartition('o') index('W')""".split()
INDEXES = [*NUMBERS, "'name'", "'a'", "'items'", "-2"]
SLICES = "1: ::-1 :-1 -2: ::2 1:2 none:2".split()
LOOP = ["", "{{ x }}", "{{ loop.index }}", "{{ loop.last }}{{ loop.nextitem }}", "{{ loop.revindex0 }}",
        "{{ loop.cycle(1,2) }}"]
CALLS = ["{{ m(1) }}", "{{ m(n,2) }}", "{{ m() }}", "{{ m(1,2,3) }}", "{{ m(a=l) }}",
         "{% call m(5) %}C{{ n }}{% endcall %}"]
PIECES = [
    "{# c #}", "{#- c -#}", "{% raw %}{{ x }}{% endraw %}", "{% generation %}g{% endgeneration %}",
    "{% filter upper %}q{{ s }}{% endfilter %}",
    "{% set ns = namespace(c=0) %}{% for i in l %}{% set ns.c = ns.c + i %}{% endfor %}{{ ns.c }}",
]
TEXTS = ["", "a", " ", "\n", "  x\n", "\n\n", "b ", "\n  "]


class Generator:
    def __init__(self, random):
        self.random = random
        self.pick = random.choice

    def template(self):
        return "{{ " + self.expression(3) + " }}" if self.random.random() < 0.6 else self.statements(2, False)

    def atom(self):
        return self.pick(self.random.choices([NAMES, STRINGS, NUMBERS, ATOMS], [12, 4, 3, 1])[0])

    def expression(self, depth):
        if depth <= 0 or self.random.random() < 0.22:
            return self.atom()
        part = lambda: self.expression(depth - 1)  # noqa: E731
        return self.pick([
            lambda: f"({part()} {self.pick('+ - * / // % ** ~'.split())} {part()})",
            lambda: f"({part()} {self.pick(['==', '!=', '<', '>', '<=', '>=', 'in', 'not in'])} {part()})",
            lambda: f"({part()} {self.pick(['and', 'or'])} {part()})",
            lambda: f"(not {part()})",
            lambda: f"({part()})|{self.pick(FILTERS)}",
            lambda: f"({part()})|{self.pick(FILTERS)}",
            lambda: f"({part()} is {self.pick(['', 'not '])}{self.pick(TESTS)})",
            lambda: f"({part()}).{self.pick(MEMBERS)}",
            lambda: f"({part()})[{self.pick(INDEXES)}]",
            lambda: f"({self.pick(NAMES)})[{self.pick(SLICES)}]",
            lambda: f"[{', '.join(part() for _ in range(self.random.randrange(4)))}]",
            lambda: f"{{{self.pick(STRINGS + NUMBERS + ['true', 'none'])}: {part()}}}",
            lambda: f"({part()} if {part()}{self.pick(['', ' else ' + part()])})",
            lambda: self.pick(["-%s", "+%s", "(%s,)", "range(%s)|list", "dict(a=%s)", "namespace(a=%s).a"]) % part(),
        ])()

    def tag(self, text):
        return "{%" + self.pick(["", "", "-", "+"]) + f" {text} " + self.pick(["", "", "-"]) + "%}"

    def shown(self):
        return "{{" + self.pick(["", "-"]) + f" {self.expression(2)} " + self.pick(["", "-"]) + "}}"

    def maybe(self, chance, text):
        return text() if self.random.random() < chance else ""

    def statement(self, depth, in_loop):
        body = lambda loop=in_loop: self.statements(depth - 1, loop)  # noqa: E731
        kind = self.random.randrange(12) if depth > 0 else 0
        if kind < 4:
            return self.shown()
        if kind == 4:
            return (self.tag("if " + self.expression(1)) + body()
                    + self.maybe(0.3, lambda: self.tag("elif " + self.expression(1)) + body())
                    + self.maybe(0.5, lambda: self.tag("else") + body()) + self.tag("endif"))
        if kind == 5:
            head = f"for {self.pick(['x', 'x', 's', 'a, b'])} in {self.expression(1)}"
            return (self.tag(head + self.maybe(0.2, lambda: " if " + self.expression(1))) + body(True) + self.pick(LOOP)
                    + self.maybe(0.2, lambda: self.tag("else") + body()) + self.tag("endfor"))
        if kind == 6:
            return self.tag(f"set {self.pick(['x', 'y', 's', 'l'])} = {self.expression(2)}") + self.pick(["", "{{ x }}",
                "{{ s }}"])
        if kind == 7:
            return self.tag("set y" + self.pick(["", " | upper", " | trim"])) + body() + self.tag("endset") + "{{ y }}"
        if kind == 8:
            return (self.tag(f"macro m(a, b={self.expression(1)})") + body(False) + "{{ a }}{{ b }}"
                    + self.pick(["", "{{ caller() if caller is defined }}", "{{ varargs }}", "{{ kwargs }}"])
                    + self.tag("endmacro") + self.pick(CALLS))
        if kind == 9 and in_loop:
            return self.tag("if loop.index > 1") + self.tag(self.pick(["break", "continue"])) + self.tag("endif")
        if kind == 10:
            return self.tag(f"with x = {self.expression(1)}") + body() + self.tag("endwith")
        return self.pick(PIECES)

    def statements(self, depth, in_loop):
        pieces = [self.pick(TEXTS) + self.statement(depth, in_loop) for _ in range(self.random.randrange(1, 4))]
        return "".join(pieces) + self.pick(TEXTS)
