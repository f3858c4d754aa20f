"""scripts/mutants.py changes one place of the code at a time."""

from __future__ import annotations

import ast
import shutil
from pathlib import Path

from scripts.mutants import ROOT, draw, executed, mutants_of, near_tests

FILE = "rlx/algo/gae.py"


def test_a_seed_draws_the_same_mutants_and_another_one_others() -> None:
    assert draw(0, 20) == draw(0, 20) != draw(1, 20)


def test_a_mutant_is_another_program_in_one_place(tmp_path: Path) -> None:
    original = (ROOT / FILE).read_text()
    (tmp_path / FILE).parent.mkdir(parents=True)
    for mutant in mutants_of(ROOT / FILE):
        shutil.copy(ROOT / FILE, tmp_path / FILE)
        mutant.apply(tmp_path)
        changed = (tmp_path / FILE).read_text()
        assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(original))
        pairs = zip(changed.splitlines(), original.splitlines(), strict=True)
        assert [number for number, (a, b) in enumerate(pairs, 1) if a != b] == [mutant.line]


def test_every_operator_number_and_condition_in_a_function_is_changed(tmp_path: Path) -> None:
    source = "LIMIT = 3\n\n\ndef f(x: int = 4) -> int:\n    if x < 5:\n        raise ValueError(6)\n    return -x + 7\n"
    tree = ast.parse(source)
    numbers = [node.value for node in executed(tree) if isinstance(node, ast.Constant)]
    assert numbers == [5, 7]


def test_the_tests_that_name_a_module_come_first_and_of_these_those_of_its_package() -> None:
    found = near_tests("rlx/algo/gae.py", "tests/algo")
    assert found[0].startswith("tests/algo/")
    assert "tests/learner/test_critic.py" in found[1:]
    assert "tests/algo/test_rebn.py" not in found
    assert near_tests("rlx/algo/no_such_module.py", "tests/algo") == []
