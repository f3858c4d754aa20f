"""Files of folders that may come from anyone are opened in one way: regular ones alone, through no link."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import pytest

from rlx.base.regular import (
    IrregularError,
    inside,
    make_inside,
    open_new,
    open_regular,
    open_to_append,
    read_bounded,
    regular_files,
    require_regular,
    write_aside,
)
from tests.strange_runs import LOOKS, REPLACEMENTS, RUNS

ROOT = Path(__file__).resolve().parents[1]
ROOMS = (
    *("rlx/runs/", "rlx/run/", "rlx/evaluation/", "rlx/view/", "rlx/commands/", "rlx/cluster/", "rlx/learner/"),
    *("rlx/tool/retrieval/", "rlx/lab/reproduce/", "rlx/hardware/pulse.py", "rlx/base/console.py"),
    *("rlx/api.py", "rlx/training.py", "rlx/model/expand.py"),
)
"""Modules that read or write runs, indexes or caches."""
METHODS = {
    *(
        "read_text",
        "read_bytes",
        "write_text",
        "write_bytes",
        "touch",
        "mkdir",
        "makedirs",
        "symlink_to",
        "hardlink_to",
    ),
    *("load_file", "safe_open", "save_file", "memmap", "fromfile", "tofile", "from_file", "read_index", "connect"),
}
"""Functions that open what they are given, whatever that is, or that follow a link."""
TENSORS = {"load_file", "safe_open", "save_file"}
"""Those of them that are imported by their names."""
PARTS = {
    *("TRAJECTORIES", "CHECKPOINTS", "EVALUATIONS", "RANKS", "LOGS", "TIMES", "TENSORBOARD", "WANDB", "FAILED"),
    *("trajectories", "checkpoints", "evaluations", "ranks", "logs", "times", "tensorboard", "wandb"),
}
"""Folders inside a run: a path to one comes from `inside`, which refuses links."""
SHIPPED = "files that the package ships"
ALLOWED = {
    "rlx/commands/data.py": {"open": "a new file, which the user names"},
    "rlx/commands/guide.py": {"read_text": SHIPPED},
    "rlx/commands/last_words.py": {"open": "/dev/null", "os.open": "/dev/null"},
    "rlx/commands/new.py": {"open": "new files of the user's code", "mkdir": "the same", "read_text": SHIPPED},
    "rlx/runs/find.py": {"/ LOGS": "only looked at"},
    "rlx/learner/checkpoint.py": {"os.open": "fsync of files of its own", "mkdir": "fails where anything is there"},
    "rlx/learner/products.py": {"read_text": "/proc"},
    "rlx/learner/state.py": {"save_file": "into a folder that was just made", "safe_open": "a verified checkpoint"},
    "rlx/model/expand.py": {"save_file": "into a folder that was just made", "load_file": "a verified checkpoint"},
    "rlx/runs/cache.py": {"mkdir": "the user's own cache"},
    "rlx/runs/folder.py": {"mkdir": "the run's folder itself, which may be behind a link"},
    "rlx/runs/index.py": {"mkdir": "the user's own cache", "connect": "the user's own cache"},
    "rlx/runs/lock.py": {"open": "with `descriptor` as its opener"},
    "rlx/runs/provenance.py": {
        "read_bytes": "code",
        ".open": "code",
        "read_text": "an installed distribution's metadata",
    },
    "rlx/cluster/check/remains.py": {"read_text": "/proc"},
    "rlx/cluster/check/selftest.py": {"mkdir": "a temporary folder of the check's own"},
    "rlx/cluster/check/trial.py": {"read_text": "/proc", "read_bytes": "/proc"},
    "rlx/lab/reproduce/files.py": {"read_text": SHIPPED},
    "rlx/lab/reproduce/measurements.py": {"mkdir": "the reproduction's folder itself"},
    "rlx/tool/retrieval/build.py": {"open": "the user's pages", "mkdir": "the index's folder itself"},
    "rlx/tool/retrieval/store.py": {"memmap": "of an open file"},
    "rlx/run/warm.py": {"shutil": "the user's own cache"},
    "rlx/view/report/page.py": {"read_text": SHIPPED},
    "rlx/view/export.py": {"read_text": SHIPPED},
    "rlx/view/server.py": {"read_bytes": SHIPPED},
}
"""Calls that are right as they are, by module, each with its reason."""


def calls_in(file: Path) -> Iterator[tuple[str, int]]:
    """Yield the name and line of each call that opens something, and of each path to a folder inside a run."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            right = node.right
            name = right.id if isinstance(right, ast.Name) else right.value if isinstance(right, ast.Constant) else None
            if name in PARTS:
                yield f"/ {name}", node.lineno
        if not isinstance(node, ast.Call):
            continue
        match node.func:
            case ast.Name(id="open"):
                yield "open", node.lineno
            case ast.Name(id=name) if name in TENSORS:
                yield name, node.lineno
            case ast.Attribute(value=ast.Name(id="os" | "io" | "gzip" | "tarfile"), attr="open"):
                yield "os.open", node.lineno
            case ast.Attribute(value=ast.Name(id="shutil"), attr="copy" | "copy2" | "copyfile" | "copytree" | "move"):
                yield "shutil", node.lineno
            case ast.Attribute(attr=attr) if attr in METHODS:
                yield attr, node.lineno
            case ast.Attribute(attr="open") if is_mode(node):
                yield ".open", node.lineno


def is_mode(node: ast.Call) -> bool:
    """Return True if a method `open` has the arguments of Path.open."""
    first = node.args[0] if node.args else None
    return first is None or (isinstance(first, ast.Constant) and set(str(first.value)) <= set("rwaxbt+"))


def test_no_module_of_runs_opens_files_by_itself() -> None:
    found: dict[str, dict[str, list[int]]] = {}
    for file in sorted((ROOT / "rlx").rglob("*.py")):
        name = file.relative_to(ROOT).as_posix()
        for call, line in calls_in(file) if name.startswith(ROOMS) else ():
            found.setdefault(name, {}).setdefault(call, []).append(line)
    wrong = [
        f"{name}:{lines}: {call}"
        for name, calls in found.items()
        for call, lines in calls.items()
        if call not in ALLOWED.get(name, {})
    ]
    assert not wrong, "open files through rlx.base.regular, or give a reason above:\n" + "\n".join(wrong)
    stale = [(name, call) for name, calls in ALLOWED.items() for call in calls if call not in found.get(name, {})]
    assert not stale


def parts_of(run: Path) -> list[str]:
    """Return the files and folders of a run, by relative path."""
    return sorted(path.relative_to(run).as_posix() for path in run.rglob("*") if path.name != ".lock")


@pytest.fixture(scope="module")
def started_run(tmp_path_factory: pytest.TempPathFactory, small_words: tuple[str, ...]) -> Path:
    """The folder of a run of one step that a command started. Look only."""
    folder = tmp_path_factory.mktemp("started") / "run"
    words = ["train", *small_words, "steps=1", f"hydra.run.dir={folder}"]
    subprocess.run([sys.executable, "-m", "rlx", *words], cwd=ROOT, check=True, capture_output=True)
    return folder


KNOWN = (
    ("log.txt", "link", "resume"),
    (".hydra", "link", "resume"),
    (".hydra/config.yaml", "link", "resume"),
    ("ranks", "link", "resume"),
    ("checkpoints", "link", "resume"),
    ("checkpoints/index.json", "zero", "eval"),
    ("checkpoints/step-1/checksums.json", "fifo", "eval"),
    ("checkpoints/step-1/tokenizer.json", "large", "best"),
    ("trajectories/eval-2.jsonl", "fifo", "best"),
    ("trajectories/eval-2.jsonl", "large", "best"),
    ("trajectories", "link", "view"),
    ("times", "link", "view"),
    ("metrics.jsonl", "large", "report"),
    ("summary.json", "zero", "compare"),
    ("config.yaml", "fifo", "status"),
)
"""Cases in which a command once hung, took all memory or wrote outside of the run."""


def try_cases(run: Path, place: Path, cases: Sequence[tuple[str, str, str]]) -> None:
    """Assert of every case: it ends with one line, and changes nothing outside of the run."""
    plan, report = place / "plan.json", place / "report.jsonl"
    plan.write_text(json.dumps({"base": str(run), "place": str(place), "cases": cases}))
    done = subprocess.run(
        [sys.executable, "-m", "tests.strange_runs", str(plan), str(report)],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "WANDB_MODE": "disabled"},
        capture_output=True,
        text=True,
        timeout=3000,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    results = [json.loads(line) for line in report.read_text().splitlines()]
    assert len(results) == len(cases)
    assert [one for one in results if one["fault"] or not one["is_same"]] == []
    looks = [one for one in results if one["case"][2] in LOOKS and one["case"][2] not in ("view", "load")]
    assert [one for one in looks if one["code"] and len(one["said"].splitlines()) != 1] == []
    ends = [one for one in results if one["code"]]
    assert [one for one in ends if not one["said"].splitlines()[-1].startswith("rlx: ")] == []


def test_commands_end_with_a_line_whatever_a_file_of_a_run_is(started_run: Path, tmp_path: Path) -> None:
    random = Random(7)
    drawn = [
        (name, random.choice(REPLACEMENTS), random.choice(LOOKS)) for name in random.sample(parts_of(started_run), 12)
    ]
    try_cases(started_run, tmp_path, [*KNOWN, *drawn])


@pytest.mark.slow
def test_every_file_of_a_run_by_every_replacement(started_run: Path, tmp_path: Path) -> None:
    names = parts_of(started_run)
    cases = [(name, how, command) for name in names for how in REPLACEMENTS for command in (*LOOKS, *RUNS)]
    try_cases(started_run, tmp_path, cases)


def test_no_link_is_followed_inside_a_folder_and_any_may_lead_to_it(tmp_path: Path) -> None:
    (tmp_path / "disk" / "run" / "part").mkdir(parents=True)
    (tmp_path / "run").symlink_to(tmp_path / "disk" / "run")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_text("x")
    run = tmp_path / "run"
    write_aside(inside(run, "part") / "file", "y")
    assert read_bounded(run / "part" / "file") == b"y"
    assert make_inside(run / ".." / "run", "more", "below").is_dir()
    (run / "link").symlink_to(tmp_path / "outside")
    (run / "part" / "link").symlink_to(tmp_path / "outside" / "file")
    (run / "nowhere").symlink_to(tmp_path / "new")
    for names in (("link",), ("link", "file"), ("part/link",), ("nowhere",), ("..", "x"), ("/etc/passwd",)):
        with pytest.raises(IrregularError):
            inside(run, *names)
        with pytest.raises(IrregularError):
            make_inside(run, *names)
    for name in ("part/link", "nowhere"):
        for act in (open_regular, open_to_append, require_regular):
            with pytest.raises(IrregularError):
                act(run / name)
        with pytest.raises(FileExistsError):
            open_new(run / name)
    with pytest.raises(IrregularError):
        list(regular_files(run))
    write_aside(run / "part" / "link", "z")
    assert (tmp_path / "outside" / "file").read_text() == "x"
    assert not (tmp_path / "new").exists()


def test_only_regular_files_of_bounded_size_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    for name in ("fifo", "folder"):
        for act in (open_regular, open_to_append, read_bounded):
            with pytest.raises(IrregularError):
                act(tmp_path / name)
    with open_new(tmp_path / "large") as file:
        file.truncate(2**34)
    with pytest.raises(IrregularError):
        read_bounded(tmp_path / "large")
    with open_to_append(tmp_path / "log") as file:
        file.write(b"a\n")
    with open_to_append(tmp_path / "log") as file:
        file.write(b"b\n")
    assert read_bounded(tmp_path / "log", 4) == b"a\nb\n"
    with pytest.raises(IrregularError):
        read_bounded(tmp_path / "log", 3)
