"""Fill the table that prime-rl publishes, on whatever device is here: one command.

    python benchmarks/bench_gpu.py [--minutes 60] [--out outputs/bench_gpu]

It runs `rlx check` first, then measures rows, each in a process of its own. Updates of the learner have tokens/s, MFU,
step time and peak memory; rollouts of the engines have tokens/s and milliseconds a tick. On a GPU it also tries
FlexAttention at the lengths where its blocks begin, and lets a vLLM engine sleep and wake ten times. A row that does
not fit, does not end in time or cannot be measured here says so. Rows that are measured stay in OUT/rows.jsonl, so that
the same command goes on where it was cut off. OUT/gpu.md is one page of markdown for docs/performance.md.

On a GPU seconds are wall time; on a CPU they are those of the process, which other programs disturb least.
MFU is model_flops in gpu_rows.py over the device's published peak (rlx/plan/peaks.py); on a CPU, over the FLOP/s
of a product of matrices that is measured here.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from itertools import product
from pathlib import Path
from typing import Any

from gpu_rows import needs

from rlx.hardware.machine import gpus, size
from rlx.hardware.packages import lacks
from rlx.hardware.profile import set_threads
from rlx.plan.peaks import machine_named

HERE = Path(__file__).resolve().parent
PACKAGES = ("rlx", "torch", "transformers", "vllm", "deepspeed", "peft")
CUDA_UPDATES = (("qwen3_0_6b", False), ("qwen3_0_6b", True), ("qwen3_4b", False), ("qwen3_4b", True))
CUDA_ROLLOUTS = (("qwen2_5_0_5b", 256), ("qwen3_0_6b", 256), ("qwen3_4b", 64), ("qwen3_4b", 256))
CPU_UPDATES = (("nano", False), ("nano", True), ("smollm2_135m", False))
CPU_ROLLOUTS = (("nano", 64), ("smollm2_135m", 16))
LENGTHS = {"cuda": (16_384, 65_536), "cpu": (512, 2_048)}
BLOCKS = (100, 128, 129, 32_768)
"""Lengths of attention: within one block, one block, one token more, and long."""
HEADS = ((32, 7, 1), (64, 14, 2), (128, 32, 4))
"""Head size, heads and key heads: groups of 7 as Qwen2.5-0.5B and of 8 as Qwen3-4B."""
Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Place:
    """The device that rows are measured on."""

    device: str
    name: str
    peak: float | None
    """FLOP/s; None where the GPU's name is not known."""
    versions: str


def find_place(threads: int) -> Place:
    """Name this machine's device, its peak and the packages here."""
    import torch

    names = [gpu.name for gpu in gpus()] if torch.cuda.is_available() else []
    if names:
        machine = machine_named(names[:1])
        return Place(device="cuda", name=names[0], peak=machine.flops if machine else None, versions=versions())
    torch.set_num_threads(threads)
    name = f"{processor()}, {threads} thread{'s' * (threads > 1)}"
    return Place(device="cpu", name=name, peak=measure_flops(), versions=versions())


def processor() -> str:
    """Name the processor, as Linux does."""
    file = Path("/proc/cpuinfo")
    lines = file.read_text().splitlines() if file.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def measure_flops() -> float:
    """Return the FLOP/s of a float32 product of matrices here, the best of ten."""
    import torch

    left, right = torch.randn(1024, 1024), torch.randn(1024, 1024)
    times = []
    for _ in range(10):
        began = time.process_time()
        left @ right
        times.append(time.process_time() - began)
    return 2 * 1024**3 / min(times)


def versions() -> str:
    """Spell the versions of the packages that matter, and Python's."""
    found = []
    for name in PACKAGES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            found.append(f"{name} -")
    return ", ".join([*found, f"Python {platform.python_version()}"])


def plan_rows(place: Place, models: Sequence[str], lengths: Sequence[int]) -> list[Row]:
    """List what is measured, the cheapest kinds first."""
    cuda = place.device == "cuda"
    lengths = lengths or LENGTHS[place.device]
    updates: Sequence[tuple[str, bool]] = CUDA_UPDATES if cuda else CPU_UPDATES
    rollouts: Sequence[tuple[str, int]] = CUDA_ROLLOUTS if cuda else CPU_ROLLOUTS
    if models:
        updates = tuple(product(models, (False, True)))
        rollouts = tuple((model, 8) for model in models)
    engines = ("vllm", "torch") if cuda else ("torch",)
    new = 256 if cuda else 32
    rows: list[Row] = [
        {"kind": "update", "model": model, "adapted": adapted, "length": length}
        for model, adapted in updates
        for length in lengths
    ]
    rows += [
        {"kind": "rollout", "model": model, "engine": engine, "rows": num, "prompt": 128, "new": new}
        for model, num in rollouts
        for engine in engines
    ]
    rows += [
        {"kind": "attention", "length": length, "dtype": dtype, "head_size": d, "heads": heads, "key_heads": keys}
        for (d, heads, keys), dtype, length in product(HEADS, ("bfloat16", "float32"), BLOCKS)
    ]
    return [*rows, {"kind": "sleep", "model": models[0] if models else "qwen2_5_0_5b", "times": 10}]


def key_of(row: Row, place: Place) -> str:
    """Name a row with all that its figures depend on."""
    return json.dumps([row, place.name, place.versions], sort_keys=True)


def read_rows(file: Path) -> dict[str, Row]:
    """Read what was measured before; lines that are torn are left out."""
    found = {}
    for line in file.read_text().splitlines() if file.is_file() else []:
        try:
            entry = json.loads(line)
            found[entry["key"]] = entry["found"]
        except (ValueError, KeyError, TypeError):
            continue
    return found


def keep(file: Path, key: str, found: Row) -> None:
    """Add what was measured, so that it is not measured again."""
    with file.open("a") as stream:
        stream.write(json.dumps({"key": key, "found": found}) + "\n")


def measure_row(row: Row, seconds: float) -> Row:
    """Measure a row in a process of its own, or say why there is no figure."""
    words = [sys.executable, str(HERE / "gpu_rows.py"), json.dumps(row)]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return {"failed": f"not done after {seconds / 60:.0f} min"}
    last = (done.stdout.strip().splitlines() or [""])[-1]
    if done.returncode == 0 and last.startswith("{"):
        return dict(json.loads(last))
    if done.returncode in (-9, 137):
        return {"failed": "killed, as the system does when memory is out"}
    told = (done.stderr.strip().splitlines() or ["no output"])[-1]
    return {"failed": f"error: {' '.join(told.split())[:120]}"}


def run_check(place: Place, minutes: float, threads: int) -> str:
    """Run `rlx check` on the profile of one such device, and return the command with its answer."""
    machine = machine_named([place.name])
    is_profile = machine is not None and machine.name in ("A100", "H100") and not lacks("vllm")
    profile = "cpu" if place.device == "cpu" else f"{machine.name.lower()}x1" if machine and is_profile else "gpu1"
    words = ["check", f"hardware={profile}", "--minutes", f"{minutes:g}"]
    if place.device == "cpu":
        words.insert(2, f"hardware.num_threads={threads}")
    done = subprocess.run([sys.executable, "-m", "rlx", *words], capture_output=True, text=True)
    said = (done.stdout.strip() or done.stderr.strip())[-4000:]
    return f"    rlx {' '.join(words)}        # exit code {done.returncode}\n\n```\n{said}\n```"


def cell(value: float | None, form: str = ",.0f") -> str:
    return "-" if value is None else format(value, form)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def described(row: Row, found: Row, place: Place) -> list[str]:
    """Return a row's cells: what it is, then its figures, or why there are none."""
    if row["kind"] == "update":
        kind = "LoRA (r=16)" if row["adapted"] else "full"
        head, width = [row["model"], kind, f"{row['length']:,}"], 4
    elif row["kind"] == "rollout":
        head, width = [row["model"], row["engine"], f"{row['rows']}", f"{row['prompt']} + {row['new']}"], 3
    elif row["kind"] == "attention":
        shape = f"{row['head_size']}, {row['heads']} / {row['key_heads']}"
        head, width = [f"{row['length']:,}", row["dtype"], shape], 4
    else:
        head, width = [row["model"], f"{row['times']}"], 2
    if "failed" in found:
        return [*head, found["failed"], *[""] * (width - 1)]
    if row["kind"] == "update":
        mfu = None if place.peak is None else 100 * found["flops"] / place.peak
        share = "-" if mfu is None else f"{mfu:.1f}%"
        figures = [share, cell(found["tokens_per_s"]), f"{found['seconds']:.2f} s", size(found["peak_bytes"])]
    elif row["kind"] == "rollout":
        figures = [cell(found["tokens_per_s"]), f"{found['tick_ms']:.1f} ms", size(found["peak_bytes"])]
    elif row["kind"] == "attention":
        figures = [f"{found['error']:.1e}", f"{found['forward_ms']:.2f} ms", f"{found['both_ms']:.2f} ms"]
        figures.append(size(found["peak_bytes"]))
    else:
        free = [size(one) for one in found["free_bytes"]]
        figures = [f"{free[0]} to {free[-1]}", f"{found['seconds']:.1f} s"]
    return [*head, *figures]


HEADERS = {
    "update": ("model", "trained", "sequence", "MFU", "tokens/s", "step", "peak memory"),
    "rollout": ("model", "engine", "rows", "prompt + sampled", "tokens/s", "tick", "peak memory"),
    "attention": ("tokens", "dtype", "head size, heads / key heads", "error", "forward", "both ways", "peak memory"),
    "sleep": ("model", "times", "free memory asleep, first to last", "asleep and awake"),
}
TITLES = {
    "update": "Updates of two sequences, one a micro-batch:",
    "rollout": "Rollouts, in which every row samples as many tokens:",
    "attention": "FlexAttention beside torch's causal attention, largest difference of outputs and gradients:",
    "sleep": "A vLLM engine that sleeps and wakes:",
}


def page(place: Place, command: str, check: str, rows: Sequence[tuple[Row, Row]]) -> str:
    """Write the whole answer in markdown; a kind that nothing of can be measured here is one line."""
    peak = "peak not known" if place.peak is None else f"peak {place.peak / 1e12:,.2f} TFLOP/s"
    parts = [f"### {place.name}", f"    {command}", f"{place.versions}; {peak}.", *([check] if check else [])]
    for kind, title in TITLES.items():
        mine = [(row, found) for row, found in rows if row["kind"] == kind]
        skipped = {found.get("failed", "") for _, found in mine}
        if mine and len(skipped) == 1 and next(iter(skipped)).startswith("skipped"):
            parts.append(f"{title} {next(iter(skipped))}.")
        elif mine:
            parts += [title, table(HEADERS[kind], [described(row, found, place) for row, found in mine])]
    return "\n\n".join(parts) + "\n"


def main(arguments: argparse.Namespace, words: Sequence[str]) -> str:
    """Measure what was not measured before, within the minutes, and write the page."""
    until = time.monotonic() + 60 * arguments.minutes
    arguments.out.mkdir(parents=True, exist_ok=True)
    file = arguments.out / "rows.jsonl"
    place = find_place(arguments.threads)
    check = "" if arguments.no_check else run_check(place, min(10.0, arguments.minutes / 2), arguments.threads)
    before = read_rows(file)
    rows = []
    for planned in plan_rows(place, arguments.models, arguments.lengths):
        row = planned | {"repeats": arguments.repeats}
        key = key_of(row, place)
        found, left = before.get(key), until - time.monotonic()
        if found is None and needs(row):
            found = {"failed": needs(row)}
        elif found is None and left < 5:
            found = {"failed": "not reached in time"}
        elif found is None:
            found = measure_row(row, min(left, 60 * arguments.row_minutes))
            keep(file, key, found)
        if not needs(row):
            print(json.dumps(row | found), file=sys.stderr, flush=True)
        rows.append((row, found))
    text = page(place, " ".join(["python benchmarks/bench_gpu.py", *words]), check, rows)
    (arguments.out / "gpu.md").write_text(text)
    return text


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0, help="after which no row begins")
    parser.add_argument("--row-minutes", type=float, default=10.0, help="after which a row is ended")
    parser.add_argument("--models", nargs="*", default=[], help="options of conf/model, nano or tiny, instead")
    parser.add_argument("--lengths", nargs="*", type=int, default=[], help="tokens of a sequence, instead")
    parser.add_argument("--repeats", type=int, default=3, help="of each measurement, of which the median counts")
    parser.add_argument("--threads", type=int, default=1, help="of a CPU")
    parser.add_argument("--no-check", action="store_true", help="leave `rlx check` out")
    parser.add_argument("--out", type=Path, default=Path("outputs/bench_gpu"), help="a folder")
    options = parser.parse_args()
    set_threads(options.threads)
    print(main(options, sys.argv[1:]))
