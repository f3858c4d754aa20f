"""Task files of lm-evaluation-harness, read as data: nothing in one runs code, reads a pickle or asks a server.

A file from a stranger has six ways to code in the harness. The first five are refused here, by the file's own text, and
the harness is given the values that were checked, not the file; `rlx/evaluate/harness.py` closes the sixth.

    !function module.name          imports a Python file beside the task file, or any module
    class, custom_dataset          the same, as keys
    metric: NAME, hf_evaluate      runs NAME.py, of a folder or of a hub, where the harness has no such metric
    dataset_path: pandas           reads a pickle in old versions of datasets
    use_prompt, unsafe_code        load files of prompts; run what the model writes
    doc_to_text: "{{ … }}"         Jinja without a sandbox reaches any module
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import yaml

from rlx.evaluate.benchmarks import BenchmarkError
from rlx.record.plain_yaml import PlainError, read_plain

ENDINGS = (".yaml", ".yml")
FORMATS = ("json", "csv", "parquet", "text")
"""Formats of local data sets: their readers are data alone."""
HUB = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")
LOCAL_KEYS = ("data_files", "field", "sep", "delimiter", "column_names")
HUB_KEYS = ("data_dir",)
CODE_KEYS = ("class", "custom_dataset", "use_prompt", "unsafe_code")
CONSENT = "read the file, and add benchmark_code=true if it may run code"
MOST_FILES = 1000
"""Task files in a folder."""

Config = dict[str, Any]


def is_place(name: str) -> bool:
    """Tell whether a benchmark is named by its file or folder."""
    return name.endswith(ENDINGS) or os.sep in name


def yaml_files(name: str) -> list[Path]:
    """Return the file that is named, or all YAML files of a folder."""
    place = Path(os.path.expanduser(name))
    if place.is_file():
        return [place]
    if not place.is_dir():
        raise BenchmarkError(f"benchmark={name:.200}: there is no such file or folder")
    found = sorted(path for ending in ENDINGS for path in place.glob(f"*{ending}"))
    if len(found) > MOST_FILES:
        raise BenchmarkError(f"benchmark={name:.200}: it holds {len(found)} files, more than {MOST_FILES}")
    return found


def task_files(name: str) -> list[Path]:
    """Return the file that is named, or the tasks among the files of a folder."""
    found = yaml_files(name)
    tasks = found if Path(os.path.expanduser(name)).is_file() else [path for path in found if "task" in read_yaml(path)]
    if not tasks:
        raise BenchmarkError(f"benchmark={name:.200}: no file in it is a task: expected FILE.yaml with the key task")
    return tasks


def read_task(path: Path, metrics: Collection[str]) -> Config:
    """Read a task with what it includes; BenchmarkError where it is no plain data. `metrics` are the harness's own."""
    config = read_included(path)
    where = f"benchmark={path!s:.200}"
    if not isinstance(config.get("task"), str) or "group" in config:
        raise BenchmarkError(f"{where}: expected the key task with the task's name; groups are not read from files")
    for key in CODE_KEYS:
        if config.get(key):
            raise BenchmarkError(f"{where}: its key {key} runs code or loads other files; {CONSENT}")
    check_metrics(where, config.get("metric_list") or [], metrics)
    return {**config, **checked_data(where, config, path.parent)}


def read_included(path: Path, seen: tuple[Path, ...] = ()) -> Config:
    """Read a task file; its own keys replace those of the files that it includes."""
    path = path.resolve()
    if path in seen:
        raise BenchmarkError(f"benchmark={path!s:.200}: it includes itself")
    config = read_yaml(path)
    named = config.pop("include", [])
    merged: Config = {}
    for each in named if isinstance(named, list) else [named]:
        if not isinstance(each, str):
            raise BenchmarkError(f"benchmark={path!s:.200}: include={each!r:.40}: expected a file's name")
        merged.update(read_included(path.parent / each, (*seen, path)))
    merged.pop("task_list", None)
    return merged | config


def read_yaml(path: Path) -> Config:
    """Read one file's plain values."""
    where = f"benchmark={path!s:.200}"
    try:
        config = read_plain(path)
    except OSError as error:
        raise BenchmarkError(f"{where} cannot be read: {error.strerror}") from None
    except yaml.constructor.ConstructorError as error:
        if "tag" in str(error.problem):
            raise BenchmarkError(f"{where}: {tag_of(error)} imports code; {CONSENT}") from None
        raise BenchmarkError(f"{where} is no plain YAML: {error.problem}") from None
    except (PlainError, ValueError, RecursionError, yaml.YAMLError) as error:
        why = " ".join(str(error).split())[:200] or type(error).__name__
        raise BenchmarkError(f"{where} is no plain YAML: {why}") from None
    if not isinstance(config, dict):
        raise BenchmarkError(f"{where}: expected keys and values, as in a task file of lm-evaluation-harness")
    return config


def tag_of(error: yaml.constructor.ConstructorError) -> str:
    """Return the tag and its line."""
    found = re.search(r"tag '([^']{1,60})", str(error.problem))
    line = "" if error.problem_mark is None else f" in line {error.problem_mark.line + 1}"
    return f"the tag {found[1] if found else '!'}{line}"


def check_metrics(where: str, listed: Any, known: Collection[str]) -> None:
    """Refuse metrics that the harness does not have itself: it would look for them as programs."""
    if not isinstance(listed, list) or not all(isinstance(one, Mapping) for one in listed):
        raise BenchmarkError(f"{where}: metric_list: expected a list of metric: NAME")
    for one in listed:
        name = one.get("metric")
        if not isinstance(name, str) or name not in known or one.get("hf_evaluate"):
            choice = ", ".join(sorted(known))
            raise BenchmarkError(f"{where}: metric {name!r:.60} would be loaded as a program; there is {choice}")


def checked_data(where: str, config: Mapping[str, Any], folder: Path) -> Config:
    """Return the keys of a task's data set, with the paths of local files."""
    path, options = config.get("dataset_path"), config.get("dataset_kwargs") or {}
    if not isinstance(options, Mapping):
        raise BenchmarkError(f"{where}: dataset_kwargs: expected keys and values")
    is_hub = isinstance(path, str) and HUB.fullmatch(path) is not None and not Path(path).exists()
    if not is_hub and path not in FORMATS:
        formats = ", ".join(FORMATS)
        raise BenchmarkError(f"{where}: dataset_path={path!r:.80}: expected {formats}, or a hub's owner/name")
    for key in options:
        allowed = HUB_KEYS if is_hub else LOCAL_KEYS
        if key not in allowed:
            raise BenchmarkError(f"{where}: dataset_kwargs.{key:.60}: expected {', '.join(allowed)}")
    if is_hub:
        return {"dataset_kwargs": dict(options)}
    if not options.get("data_files"):
        raise BenchmarkError(f"{where}: dataset_path: {path} needs dataset_kwargs.data_files, the names of files")
    return {"dataset_kwargs": {**options, "data_files": local_files(where, options["data_files"], folder)}}


def local_files(where: str, value: Any, folder: Path) -> Any:
    """Return names of files as absolute paths: below the task file's folder, or else below the current one."""
    if isinstance(value, Mapping):
        return {str(split): local_files(where, each, folder) for split, each in value.items()}
    if isinstance(value, list):
        return [local_files(where, each, folder) for each in value]
    places = (folder / value, Path(value)) if isinstance(value, str) and "\0" not in value else ()
    for place in places:
        if place.is_file():
            return str(place.resolve())
    raise BenchmarkError(f"{where}: data_files: there is no file {value!r:.120}; a server is not asked")


def digest_of_files(value: Any) -> str:
    """Return a digest of the contents of files that `local_files` named."""
    found = hashlib.sha256()
    for name in _names(value):
        with open(name, "rb") as file:
            found.update(hashlib.file_digest(file, "sha256").digest())
    return found.hexdigest()


def _names(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, Mapping) else value
    return [name for each in inner for name in _names(each)]
