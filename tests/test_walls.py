"""Who may look into whom: the import walls of docs/architecture.md, held by walking the syntax trees."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.loops import for_each

ROOT = Path(__file__).resolve().parents[1]
FILES = sorted((ROOT / "rlx").rglob("*.py"))
MAKING = sorted((ROOT / "scripts" / "nano").rglob("*.py"))
"""Training of nano, which the package does not contain."""
HEAVY = {"torch", "transformers", "peft", "deepspeed", "vllm", "wandb"}

FLOORS = (
    ("base",),
    ("types",),
    ("environment",),
    ("protocol", "tool", "runs"),
    ("env",),
    ("algo", "model"),
    ("hardware",),
    ("rollout", "learner"),
    ("evaluation",),
    ("run",),
    ("training",),
    ("settings",),
    ("plan",),
    ("cluster", "gym"),
    ("view",),
    ("commands",),
    ("api", "lab"),
    ("cli",),
)
"""The rooms of the house, those below first: one looks into itself and into floors below, never up or next door."""
FLOOR_OF = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}

LIGHT = {
    "base",
    "env",
    "environment",
    "tool",
    "protocol",
    "types",
}
"""Text and values: rooms that import none of the heavy packages."""

ALONE = {
    "vllm": ("rlx/rollout/vllm/llm.py", "rlx/rollout/vllm/start.py"),
    "deepspeed": "rlx/learner/deepspeed.py",
    "wandb": "rlx/runs/wandb_run.py",
    "torch.utils.tensorboard": "rlx/runs/event_files.py",
    "typer": ("rlx/cli", "rlx/commands", "rlx/lab/analyze.py"),
    "gymnasium": "rlx/gym/",
}
"""Packages that one file imports, or those whose names begin so, and no others."""


def name_of(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


def imports(file: Path, late: bool = True) -> Iterator[str]:
    """Every module a file imports, in functions too unless not `late`, less those that only a type checker sees."""
    tree = ast.parse(file.read_text())
    unseen = [node for node in ast.walk(tree) if is_type_checking(node) or (not late and is_function(node))]
    checked = {id(n) for node in unseen for child in node.body for n in ast.walk(child)}
    for node in ast.walk(tree):
        if id(node) in checked:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{name_of(file)}:{node.lineno}: imports are absolute"
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def is_function(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


def is_of(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


def room_of(module: str) -> str:
    """The room of a module of ours; none for the package itself."""
    return [*module.split("."), ""][1]


@for_each("file", FILES)
def test_imports_go_one_way(file: Path) -> None:
    own = room_of(name_of(file).removesuffix(".py").replace("/", "."))
    if own in FLOOR_OF:
        rooms = {room_of(module) for module in imports(file) if is_of(module, "rlx")} - {own, "", "__version__"}
        assert not {room for room in rooms if FLOOR_OF[room] >= FLOOR_OF[own]}, f"{own} looks up or next door"
    if own in LIGHT:
        assert not HEAVY & {module.split(".")[0] for module in imports(file)}


def test_the_package_imports_no_script() -> None:
    assert [name_of(file) for file in FILES for module in imports(file) if is_of(module, "scripts")] == []


def test_every_room_has_a_floor() -> None:
    rooms = {room_of(name_of(file).removesuffix(".py").replace("/", ".")) for file in FILES}
    assert rooms - {"__init__", "__main__"} == set(FLOOR_OF)


def test_modules_import_each_other_in_no_circle() -> None:
    """Within rooms too: what is imported when a module is, and not when a function runs."""
    known = {name_of(file).removesuffix(".py").replace("/", ".").removesuffix(".__init__"): file for file in FILES}
    wanted = {name: {module for module in imports(file, late=False) if module in known} for name, file in known.items()}
    while free := {name for name, needs in wanted.items() if not needs & wanted.keys() - {name}}:
        wanted = {name: needs for name, needs in wanted.items() if name not in free}
    assert not wanted


@for_each("package, owner", ALONE.items())
def test_one_file_imports_it(package: str, owner: str | tuple[str, ...]) -> None:
    users = {name_of(file) for file in FILES for module in imports(file) if is_of(module, package)}
    assert all(user.startswith(owner) for user in users)


def test_only_the_configuration_knows_hydra() -> None:
    users = {
        name_of(file) for file in FILES for module in imports(file) if module.split(".")[0] in ("hydra", "omegaconf")
    }
    names = ("arms", "auto", "compose", "explain", "in_process", "presets", "resolvers", "saved", "source", "words")
    assert users <= {f"rlx/settings/{name}.py" for name in names}


@for_each(
    "module",
    [
        "rlx.env.countdown.countdown",
        "rlx.tool.python",
        "rlx.protocol.tags",
        "rlx.types",
        "rlx.cli",
        "rlx.gym",
        "rlx.api",
    ],
)
def test_text_and_values_load_no_torch(module: str) -> None:
    """Also through what they import in turn."""
    import subprocess
    import sys

    code = f"import sys, {module}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, timeout=600).returncode == 0


def test_no_choice_is_made_by_the_name_of_an_environment_or_algorithm() -> None:
    """`if algo == "grpo"` and its like: an algorithm is a value, and nothing asks for its name."""
    names = {file.stem for group in ("algo", "env") for file in (ROOT / "conf" / group).glob("*.yaml")}
    for file in FILES:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Compare):
                values = {n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
                assert not values & names, f"{name_of(file)}:{node.lineno}: {ast.unparse(node)}"


LOOKED_UP = {
    # optional members of objects of other packages and of the standard library
    *(
        "strerror",
        "exit_code",
        "__getattr__",
        "__abstractmethods__",
        "__dict__",
        "__dataclass_fields__",
        "__self__",
        "__len__",
        "to_json",
        "values",
        "chat_template",
    ),
    *(
        "__closure__",
        "cache_clear",
        "underlying_store",
        "path",
        "layer_types",
        "_weight_conversions",
        "peft_config",
        "get_delta_weight",
        "base_layer",
        "optimizer",
    ),
    *("memfd_create", "mallopt", "sched_getaffinity", "rich_help_panel"),
    # functions of a module that runs in a container (rlx.tool.contain.forks says which there may be)
    *("warm", "prepare", "answer"),
    # an array of numpy in a contained process, which imports no numpy
    *("dtype",),
    # a configuration that may be of another kind of stage
    *("config",),
}
"""Names that are looked up on objects that no user of rlx writes."""


def test_members_of_a_users_object_are_declared() -> None:
    """A look-up of an undeclared name takes a field of the user's own for a capability."""
    from rlx.environment import Environment, Episode
    from rlx.environment.dialect import Dialect

    declared = {name for base in (Environment, Episode, Dialect) for name in vars(base)}
    found = [
        f"{name_of(file)}:{node.lineno}: {ast.unparse(node)}"
        for file in FILES
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("getattr", "hasattr")
        if isinstance(name := node.args[1], ast.Constant) and name.value not in declared | LOOKED_UP
    ]
    assert not found


def test_the_docs_list_every_member_of_an_environment() -> None:
    from rlx.environment import Environment, Episode

    page = (ROOT / "docs" / "adding-an-environment.md").read_text()
    names = {name for base in (Environment, Episode) for name in vars(base) if not name.startswith(("_", "has_"))}
    assert not {name for name in names if f"`{name}" not in page}


def test_files_are_short_enough_to_read() -> None:
    long = {name_of(file): num for file in [*FILES, *MAKING] if (num := len(file.read_text().splitlines())) > 400}
    assert not long


def test_there_is_no_pickle_and_no_eval() -> None:
    """But for the runner and the examiner of the CPython tool, which nothing imports: contained processes run them."""
    contained = {"rlx/tool/cpython_runner.py", "rlx/tool/cpython_values.py"}
    modules = {name.removesuffix(".py").replace("/", ".") for name in contained}
    importers = {name_of(file) for file in FILES if modules & set(imports(file))}
    assert not importers - contained
    for file in [*FILES, *MAKING]:
        assert not {"pickle", "dill", "cloudpickle", "shelve"} & {module.split(".")[0] for module in imports(file)}
        calls = [n.func.id for n in ast.walk(ast.parse(file.read_text())) if is_plain_call(n)]
        assert not {"eval", "exec"} & set(calls) or name_of(file) in contained, name_of(file)


def is_plain_call(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name)


@for_each("path", sorted((ROOT / "rlx").rglob("__init__.py")))
def test_a_package_lists_files_that_it_has(path: Path) -> None:
    listed = re.findall(r"(?<![\w./-])\w+\.py\b", ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "")
    folders = (path.parent, ROOT / "rlx")
    assert [name for name in listed if not any((folder / name).is_file() for folder in folders)] == []
