"""Speed of retrieval: in the process, and through `rlx serve retriever`, on synthetic pages.

    python benchmarks/bench_retrieval.py                                       100,000 pages
    python benchmarks/bench_retrieval.py --pages 1000000 --engine tantivy      start, memory and rate of a large index

Pages have 80 words of 50,000, the commonest 10 times as likely as the 100th; queries have 6 words, all different, and
want 5 pages. In-process searches use one thread. The server is a process of its own without a cache. Rates are the best
of some repeats, in wall time; `ratio_of_cpu` compares the processor time of client and server. The index stays in
--folder, if one is given.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import Any

from rlx.base.limits import MistakeError
from rlx.tool.retrieval.build import build_index, open_index
from rlx.tool.retrieval.client import Client
from rlx.tool.retrieval.folder import read_about

WORDS = [f"w{number}" for number in range(50_000)]
WEIGHTS = list(accumulate(1 / (number + 10) for number in range(50_000)))
TOP_K = 5
BATCH = 256
THREADS = 64


def texts(num: int, length: int, seed: int) -> Iterator[str]:
    draw = Random(seed)
    return (" ".join(draw.choices(WORDS, cum_weights=WEIGHTS, k=length)) for _ in range(num))


def make_index(folder: Path, num_pages: int, engine: str) -> float | None:
    """Build the index unless it is there; seconds of the processor."""
    try:
        if read_about(folder).num_pages == num_pages:
            return None
    except MistakeError:
        pass
    source = folder.with_suffix(".jsonl")
    if not source.exists():
        source.parent.mkdir(parents=True, exist_ok=True)
        with source.open("w") as file:
            for number, text in enumerate(texts(num_pages, 80, 0)):
                file.write(json.dumps({"id": str(number), "title": f"T{number}", "text": text}) + "\n")
    begin = time.process_time()
    build_index(source, folder, engine=engine, tell=lambda *_: None)
    return time.process_time() - begin


def best_rates(num: int, repeats: int, works: Mapping[str, Callable[[int], object]]) -> dict[str, float]:
    """Queries a second of each work's quickest repeat. The works take turns, as other programs may disturb any."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for repeat in range(repeats):
        for name, work in works.items():
            begin = time.perf_counter()
            work(repeat)
            times[name].append(time.perf_counter() - begin)
    return {name: num / min(found) for name, found in times.items()}


def seconds_of(pid: int) -> float:
    """Seconds of the processor that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def batches(num: int, seed: int) -> list[list[str]]:
    found = list(texts(num, 6, 1000 + seed))
    return [found[begin : begin + BATCH] for begin in range(0, num, BATCH)]


def measure_start(folder: Path) -> dict[str, float]:
    """Seconds until a fresh process has answered, its memory, and the processor's queries a second."""
    code = (
        "import json, sys, time; begin = time.perf_counter()\n"
        "from pathlib import Path; from rlx.tool.retrieval.build import open_index\n"
        "found = open_index(Path(sys.argv[1])); found.find(['w1 w2'], 5); start = time.perf_counter() - begin\n"
        "queries = json.load(sys.stdin); begin = time.process_time(); found.find(queries, 5)\n"
        "rate = len(queries) / (time.process_time() - begin)\n"
        "import resource; peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20\n"
        "print(json.dumps({'start_s': round(start, 2), 'peak_gb': round(peak, 2), 'rate_of_a_core': round(rate)}))"
    )
    asked = json.dumps(list(texts(500, 6, 999)))
    words = [sys.executable, "-c", code, str(folder)]
    done = subprocess.run(words, input=asked, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def single(address: str, queries: list[str]) -> None:
    """Ask one query a call over one connection, as most clients of Search-R1 do."""
    connection = HTTPConnection(address, timeout=120)
    for query in queries:
        connection.request("POST", "/retrieve", json.dumps({"queries": [query], "topk": TOP_K, "return_scores": True}))
        json.loads(connection.getresponse().read())
    connection.close()


def measure(folder: Path, num: int, repeats: int) -> dict[str, Any]:
    retriever = open_index(folder)
    retriever.find(["w1"], TOP_K)
    words = [sys.executable, "-m", "rlx", "serve", "retriever", str(folder), "--port", "0", "--cache", "0"]
    server = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    cpu = {"in_process": 0.0, "server": 0.0}
    asked = [batches(num, seed) for seed in range(repeats)]

    def in_process(seed: int) -> None:
        begin = time.process_time()
        for some in asked[seed]:
            retriever.find(some, TOP_K)
        cpu["in_process"] += time.process_time() - begin

    try:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        client = Client(url, cache=0)
        client.find(["w1"], TOP_K)

        def one_caller(seed: int) -> None:
            begin = time.process_time() + seconds_of(server.pid)
            for some in asked[seed]:
                client.find(some, TOP_K)
            cpu["server"] += time.process_time() + seconds_of(server.pid) - begin

        with ThreadPoolExecutor(THREADS) as threads:

            def by_threads(seed: int) -> None:
                queries = [query for some in asked[seed] for query in some]
                list(threads.map(lambda query: client.find([query], TOP_K), queries))

            def by_connections(seed: int) -> None:
                queries = [query for some in asked[seed] for query in some]
                parts = [queries[number::THREADS] for number in range(THREADS)]
                list(threads.map(lambda part: single(url.removeprefix("http://"), part), parts))

            rates = best_rates(
                num,
                repeats,
                {
                    "in_process": in_process,
                    f"calls_of_{BATCH}": one_caller,
                    f"{THREADS}_threads_of_one_client": by_threads,
                    f"{THREADS}_connections_of_one_query": by_connections,
                },
            )
    finally:
        server.kill()
        server.wait()
    inside, together, *_ = rates.values()
    return {
        **{name: round(rate) for name, rate in rates.items()},
        "ratio": round(together / inside, 2),
        "ratio_of_cpu": round(cpu["in_process"] / cpu["server"], 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=100_000)
    parser.add_argument("--engine", default="bm25s")
    parser.add_argument("--queries", type=int, default=2048)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rlx-retrieval-") as made:
        folder = given.folder or Path(made) / "index"
        seconds = make_index(folder, given.pages, given.engine)
        found: dict[str, Any] = {"pages": given.pages, "engine": given.engine}
        if seconds is not None:
            found["build_cpu_s"] = round(seconds)
        found |= measure_start(folder) | measure(folder, given.queries, given.repeats)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
