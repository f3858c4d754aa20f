from __future__ import annotations

import ast

from hypothesis import given
from hypothesis import strategies as st

from rlx.tool.snippet import SHOW, TOKENS, printing
from tests.loops import for_each

STATEMENTS = [
    "x = 1",
    "x = [1,\n2]",
    "s = 'a;b'",
    's = """a\n# b\nc;\n"""',
    "x = 1 + \\\n2",
    "if x: y; z",
    "if x: y\nelse: y; z",
    "for i in s:\n    i; i",
    "def f(a=(1, 2)):\n    return a",
]
EXPRESSIONS = [
    "x",
    "(1,\n 2)",
    "f(x); x",
    "x = 'a;b'; x",
    "'a' + '''b\n;'''",
    "x # y; z",
    "x;",
    "lambda: {'(': 1}",
    "x, y",
]


def made_of(code: str) -> str:
    """What would be run, as a syntax tree: the first candidate that is Python, or the code as it is."""
    for candidate in printing(code):
        try:
            return ast.dump(ast.parse(candidate))
        except SyntaxError:
            continue
    return ast.dump(ast.parse(code))


@given(before=st.lists(st.sampled_from([*STATEMENTS, *EXPRESSIONS, "# x", ""])), last=st.sampled_from(EXPRESSIONS))
def test_the_expression_at_the_end_is_printed(before: list[str], last: str) -> None:
    code = "\n".join([*before, last])
    tree = ast.parse(f"{SHOW}\n{code}")
    end = tree.body[-1]
    assert isinstance(end, ast.Expr)
    end.value = ast.Call(func=ast.Name(id="__show__", ctx=ast.Load()), args=[end.value], keywords=[])
    assert made_of(code) == ast.dump(tree)


@given(before=st.lists(st.sampled_from([*STATEMENTS, *EXPRESSIONS])), last=st.sampled_from(STATEMENTS))
def test_a_statement_at_the_end_stays_as_it_is(before: list[str], last: str) -> None:
    code = "\n".join([*before, last])
    assert made_of(code) == ast.dump(ast.parse(code))


@for_each("code", ["", "# only a note", ";", "a) + (b", ")("])
def test_nothing_is_made_of_code_that_ends_in_no_statement(code: str) -> None:
    assert list(printing(code)) == []


@for_each("quote", ["'", '"', "'''", '"""'])
def test_a_string_that_nothing_closes_is_looked_through_once(quote: str) -> None:
    code = quote + rf"\{quote[0]}" * 100
    assert [token[0] for token in TOKENS.finditer(code)] == [code]
