"""Index folders: what is built is found, a killed build goes on, and what is no whole index is refused in one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np
import pytest

from rlx.base.limits import MistakeError
from rlx.tool.retrieval import build as building
from rlx.tool.retrieval.build import build_index, open_index
from rlx.tool.retrieval.memory import MemoryRetriever
from rlx.tool.retrieval.page import Page
from tests.errors import raises_naming

Build = Callable[..., Path]
NAMES = [f"w{number}" for number in range(60)]


def quiet(*_: object) -> None:
    pass


def drawn(num: int, seed: int = 0) -> list[Page]:
    draw = Random(seed)
    texts = [" ".join(draw.choices(NAMES, k=draw.randint(5, 30))) for _ in range(num)]
    return [Page(str(i), f"T{i}", text, f"http://x/{i % (num - 1)}") for i, text in enumerate(texts)]


def write(path: Path, pages: list[Page]) -> Path:
    rows = [{"id": p.id, "contents": p.contents, "url": p.url} for p in pages]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != "index.json"}


def test_an_index_on_disk_gives_the_bits_of_the_one_in_memory(build: Build) -> None:
    pages = drawn(200)
    opened, memory = open_index(build("bm25s", pages)), MemoryRetriever(pages)
    queries = [" ".join(Random(i).choices(NAMES, k=3)) for i in range(50)]
    assert opened.find(queries, 5) == memory.find(queries, 5)
    assert opened.find(["", "none"], 5) == [[], []]


def test_the_first_hit_of_both_engines_agrees(build: Build) -> None:
    pytest.importorskip("tantivy")
    pages = drawn(300)
    disk, memory = open_index(build("tantivy", pages)), MemoryRetriever(pages)
    queries = [" ".join(Random(i).choices(NAMES, k=4)) for i in range(100)]
    firsts = [[hits[0].page for hits in engine.find(queries, 3)] for engine in (disk, memory)]
    assert sum(one == other for one, other in zip(*firsts)) >= 95
    for one, other in zip(disk.find(queries, 3), memory.find(queries, 3)):
        assert [hit.score for hit in one] == pytest.approx([hit.score for hit in other], rel=0.03)


def test_tantivy_keeps_the_order_of_equal_pages(build: Build) -> None:
    pytest.importorskip("tantivy")
    opened = open_index(build("tantivy", [Page(str(i), "", "x" if i % 2 else "y") for i in range(400)]))
    for top_k in (1, 5, 150):
        assert [int(hit.page.id) for hit in opened.find(["x"], top_k)[0]] == [2 * i + 1 for i in range(top_k)]
    assert len(opened.find(["x"], 300)[0]) == 200
    assert opened.find(["", "z", 'x" AND (', "x OR y:"], 1)[:2] == [[], []]


@pytest.mark.parametrize("engine", ["bm25s", "tantivy"])
def test_a_page_is_opened_at_its_address(build: Build, engine: str) -> None:
    pytest.importorskip(engine)
    pages = drawn(50)
    opened = open_index(build(engine, pages))
    assert opened.open("http://x/7") == pages[7]
    assert opened.open("http://x/0") == pages[0], "the first of two with one address"
    assert opened.open("http://x/7#") is None
    assert opened.open("") is None


@pytest.mark.parametrize("engine", ["bm25s", "tantivy"])
@pytest.mark.parametrize("calls", [1, 3, 6, 9])
def test_a_killed_build_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str, calls: int
) -> None:
    pytest.importorskip(engine)
    monkeypatch.setattr(building, "BLOCK", 8)
    source = write(tmp_path / "pages.jsonl", drawn(60))
    whole = build_index(source, tmp_path / "whole", engine=engine, tell=quiet)
    seen: list[tuple[str, int]] = []

    def die(stage: str, done: int, _: int) -> None:
        seen.append((stage, done))
        if len(seen) == calls:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_index(source, tmp_path / "killed", engine=engine, tell=die)
    with open(tmp_path / "killed" / "pages.jsonl", "ab") as file:
        file.write(b"torn" if calls < 6 else b"")  # what a kill may leave of a block
    with raises_naming(MistakeError, tmp_path / "killed", "not finished"):
        open_index(tmp_path / "killed")
    before = len(seen)
    about = build_index(source, tmp_path / "killed", engine=engine, tell=lambda *told: seen.append(told[:2]))
    assert about.edition == whole.edition
    assert len(set(seen)) == len(seen) or engine == "bm25s", "no block is done twice"
    assert seen[before:]
    queries = [" ".join(Random(i).choices(NAMES, k=3)) for i in range(30)]
    killed, other = (open_index(tmp_path / name).find(queries, 5) for name in ("killed", "whole"))
    assert killed == other
    assert not (tmp_path / "killed" / "building.json").exists()


def test_equal_pages_have_one_edition_and_others_another(build: Build) -> None:
    names = {"a": drawn(20), "b": drawn(20), "c": drawn(20, seed=1)}
    a, b, c = (open_index(build("bm25s", pages, name=name)).edition() for name, pages in names.items())
    assert a == b != c


def test_a_folder_that_is_no_index_is_never_written_to(tmp_path: Path, build: Build) -> None:
    source = write(tmp_path / "pages.jsonl", drawn(5))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter").write_text("x")
    (tmp_path / "file").write_text("x")
    for name in ("mine", "file"):
        with raises_naming(MistakeError, tmp_path / name, "no index"):
            build_index(source, tmp_path / name, engine="bm25s", tell=quiet)
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["letter"]
    folder = build("bm25s")
    before = files(folder)
    with raises_naming(MistakeError, folder, "already"):
        build_index(source, folder, engine="bm25s", tell=quiet)
    assert files(folder) == before


def test_an_unfinished_build_of_other_pages_is_refused(tmp_path: Path) -> None:
    source = write(tmp_path / "pages.jsonl", drawn(5))

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_index(source, tmp_path / "index", engine="bm25s", tell=die)
    write(source, drawn(6))
    with raises_naming(MistakeError, tmp_path / "index", "unfinished", "size"):
        build_index(source, tmp_path / "index", engine="bm25s", tell=quiet)


def cut(folder: Path) -> None:
    path = folder / "pages.jsonl"
    path.write_bytes(path.read_bytes()[:-3])


def edit(**fields: object) -> Callable[[Path], None]:
    def work(folder: Path) -> None:
        path = folder / "index.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | fields))

    return work


@pytest.mark.parametrize(
    ("damage", "names"),
    [
        (cut, ("pages.jsonl", "bytes", "cut short")),
        (lambda folder: (folder / "bm25s" / "data.csc.index.npy").unlink(), ("data.csc.index.npy", "missing")),
        (lambda folder: (folder / "index.json").write_text("{"), ("index.json", "read")),
        (lambda folder: (folder / "index.json").write_text("[]"), ("format None",)),
        (lambda folder: (folder / "index.json").unlink(), ("index.json", "no index")),
        (edit(format=1), ("format 1", "format 2")),
        (edit(engine="lucene"), ("'lucene'",)),
        (edit(files={"/etc/passwd": 3}), ("index.json", "not as")),
        (edit(files=[1]), ("index.json", "not as")),
        (edit(num_pages="many"), ("index.json", "not as")),
    ],
)
def test_an_index_that_is_not_whole_is_refused_in_one_line(
    build: Build, damage: Callable[[Path], None], names: tuple[str, ...]
) -> None:
    folder = build("bm25s")
    damage(folder)
    with raises_naming(MistakeError, *names):
        open_index(folder)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", ("no pages",)),
        ("{}\n", ("line 1", "no text")),
        ('"a"\n\xff\n', ("line 2", "UTF-8")),
    ],
)
def test_pages_that_cannot_be_read_are_refused_with_their_line(
    tmp_path: Path, text: str, names: tuple[str, ...]
) -> None:
    (tmp_path / "pages.jsonl").write_bytes(text.encode("latin1"))
    with raises_naming(MistakeError, tmp_path / "pages.jsonl", *names):
        build_index(tmp_path / "pages.jsonl", tmp_path / "index", engine="bm25s", tell=quiet)


@pytest.mark.parametrize(
    ("keys", "names"),
    [
        ({"engine": "lucene"}, ("--engine", "'lucene'", "bm25s, tantivy")),
        ({"engine": "dense"}, ("--engine", "'dense'", "bm25s, tantivy")),
    ],
)
def test_an_engine_that_is_not_there_is_refused(tmp_path: Path, keys: dict, names: tuple[str, ...]) -> None:
    source = write(tmp_path / "pages.jsonl", drawn(5))
    with raises_naming(MistakeError, *names):
        build_index(source, tmp_path / "index", tell=quiet, **keys)
    assert not (tmp_path / "index").exists()


def test_scores_of_other_words_are_refused(build: Build) -> None:
    folder = build("bm25s")
    path = folder / "bm25s" / "indptr.csc.index.npy"
    numbers = np.load(path)
    for place, number in ((-1, 10**6), (1, 10**6), (0, 1)):
        changed = numbers.copy()
        changed[place] = number
        np.save(path, changed)
        with raises_naming(MistakeError, folder, "scores", "words"):
            open_index(folder)


def test_a_damaged_page_is_reported_when_it_is_read(build: Build) -> None:
    folder = build("bm25s")
    path = folder / "pages.jsonl"
    path.write_bytes(path.read_bytes().replace(b'["b"', b'["b\n'))
    opened = open_index(folder)
    assert opened.find(["birds"], 1)[0]
    with raises_naming(MistakeError, "page 1", "damaged"):
        opened.find(["dog"], 1)
    np.array([0, 10**15, 2, 3, 4], np.int64).tofile(folder / "pages.begins")
    with raises_naming(MistakeError, "page 0", "damaged"):
        open_index(folder).find(["cat"], 1)


def test_a_page_number_out_of_range_harms_nothing(build: Build) -> None:
    folder = build("bm25s")
    path = folder / "bm25s" / "indices.csc.index.npy"
    numbers = np.load(path)
    numbers[:] = 2**31 - 1
    np.save(path, numbers)
    opened = open_index(folder)
    with raises_naming(MistakeError, folder, "damaged"):
        opened.find(["dog"], 3)


def pickled(folder: Path) -> None:
    np.save(folder / "bm25s" / "data.csc.index.npy", np.array([Path()] * 3, object))
    resize(folder)


def zipped(folder: Path) -> None:
    with open(folder / "bm25s" / "data.csc.index.npy", "wb") as file:
        np.savez(file, np.zeros(3))
    resize(folder)


def resize(folder: Path) -> None:
    """Name the present sizes in index.json, as a hostile index does."""
    sizes = {path.relative_to(folder).as_posix(): path.stat().st_size for path in folder.rglob("*") if path.is_file()}
    edit(files={name: size for name, size in sizes.items() if name != "index.json"})(folder)


@pytest.mark.parametrize("write", [pickled, zipped])
def test_scores_that_are_no_numbers_are_refused_in_one_line(build: Build, write: Callable[[Path], None]) -> None:
    folder = build("bm25s")
    write(folder)
    with raises_naming(MistakeError, folder, "damaged"):
        open_index(folder)


def test_a_panic_of_tantivy_is_one_line(build: Build) -> None:
    pytest.importorskip("tantivy")
    opened = open_index(build("tantivy"))

    class PanicException(BaseException):
        pass

    class Panicking:
        def search(self, *_: object, **__: object) -> None:
            raise PanicException("index out of bounds")

    opened.searcher = Panicking()
    with raises_naming(MistakeError, "damaged"):
        opened.find(["dog"], 1)
