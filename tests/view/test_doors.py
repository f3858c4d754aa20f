"""What each door of `rlx view` answers of a run that is as a run leaves it, live, and cut back."""

from __future__ import annotations

import json
import os
import socket
import threading
from pathlib import Path

import pytest

from rlx.runs.codec import NUMBERS
from rlx.runs.files import EpisodeFile
from rlx.runs.index import places_of
from rlx.runs.store import growing
from rlx.runs.times import EpisodeTimes, TurnTimes, save_times, times_path
from rlx.view import episodes, places
from tests.view.conftest import Page, episode, serving, turn, write, write_run


def test_a_run_is_told_with_its_state_choices_and_figures(page: Page) -> None:
    (run,) = page.api("runs")["runs"]
    assert (run["id"], run["name"], run["state"], run["step"], run["steps"]) == ("run", "run", "finished", 3, 3)
    assert (run["env"], run["algo"], run["model"], run["seed"]) == ("countdown", "tool_rloo", "nowhere", 0)
    assert run["figures"] == {"pass@1": [0.5, 0.25, None]}
    assert (run["num_episodes"], run["damage"], run["sweep"]) == (5, [], "")


def test_runs_that_differ_in_their_seeds_alone_share_a_sweep(run: Path, page: Page) -> None:
    write_run(run.parent / "other", seed=1)
    write_run(run.parent / "longer", steps=4)
    sweeps = {one["id"]: one["sweep"] for one in page.api("runs")["runs"]}
    assert sweeps["run"] == sweeps["other"] != ""
    assert sweeps["longer"] == ""


def test_runs_of_several_places_have_ids_of_their_own(run: Path, tmp_path: Path) -> None:
    write_run(tmp_path / "more" / "outputs" / "run")
    with serving(run.parent, tmp_path / "more" / "outputs", run) as page:
        assert [one["id"] for one in page.api("runs")["runs"]] == ["outputs/run", "outputs/run~2"]
    with serving(run) as page:
        assert [one["id"] for one in page.api("runs")["runs"]] == ["run"]


def test_the_configuration_is_flat_and_the_results_are_text(page: Page) -> None:
    found = page.api("config", run="run")
    assert found["config"] == {"seed": 0, "steps": 3, "env._target_": "a.b.Env", "model.path": "nowhere"}
    assert (found["command"], found["results"]) == ("rlx train env=countdown algo=tool_rloo", "# Results\n")
    assert found["summary"]["status"] == "finished"


def test_metrics_are_columns_and_go_on_from_a_byte(run: Path, page: Page) -> None:
    first = page.api("metrics", run="run")
    assert (first["steps"], first["columns"]["loss/value"], first["more"]) == ([1, 2, 3], [0.5, 1.0, 1.5], False)
    with open(run / "metrics.jsonl", "a") as file:
        file.write('{"step": 4, "kl/mean": null}\n{"step": 5')
    query = {"from": first["end"], "mark": first["mark"]}
    more = page.api("metrics", run="run", **query)
    assert (more["steps"], more["columns"], more["reset"]) == ([4], {"kl/mean": [None]}, False)
    again = page.api("metrics", run="run", **{"from": more["end"], "mark": more["mark"]})
    assert (again["steps"], again["reset"], again["end"]) == ([], False, more["end"])


@pytest.mark.parametrize("text", ["", '{"step": 1}\n', '{"step": 1, "x": 2.0}\n' * 50])
def test_metrics_that_were_cut_back_begin_anew(run: Path, page: Page, text: str) -> None:
    first = page.api("metrics", run="run")
    (run / "metrics.jsonl").write_text(text)
    found = page.api("metrics", run="run", **{"from": first["end"], "mark": first["mark"]})
    assert (found["reset"], found["steps"]) == (True, [1] * text.count("\n"))


def test_long_metrics_come_in_parts(run: Path, page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlx.view.metrics.MOST_METRICS", 100)
    steps, end, mark, more = [], 0, "", True
    while more:
        found = page.api("metrics", run="run", **{"from": end, "mark": mark})
        steps, end, mark, more = steps + found["steps"], found["end"], found["mark"], found["more"]
    assert steps == [1, 2, 3]


def test_the_table_has_a_row_for_each_episode(page: Page) -> None:
    table = page.table("run")
    files = [(file["name"], file["kind"], file["step"], file["first"], file["rows"]) for file in table["files"]]
    assert files == [("step-000002.jsonl", "train", 2, 0, 3), ("eval-8.jsonl", "eval", None, 3, 2)]
    assert [table["strings"][number] for number in table["task"]] == ["a", "a", "a", "b", "c"]
    assert (table["file"], table["line"], table["group"]) == ([0, 0, 0, 1, 1], [1, 2, 3, 1, 2], [0, 0, 0, 0, 1])
    assert (table["parent"], table["forks"], table["success"]) == (
        [-1, -1, 0, -1, -1],
        [1, 0, 0, 0, 0],
        [0, 0, 1, 1, 0],
    )
    assert (table["tokens"], table["new_tokens"], table["trained"]) == (
        [6, 3, 6, 3, 0],
        [6, 3, 1, 3, 0],
        [4, 2, 4, 0, 0],
    )
    assert table["reward"][2] == pytest.approx(0.98)


def test_a_table_that_has_not_changed_is_not_sent_again(run: Path, page: Page) -> None:
    tag = page.get("api/episodes", run="run").headers["ETag"]
    assert page.get("api/episodes", {"If-None-Match": tag}, run="run").status == 304
    write(run / "trajectories" / "step-000003.jsonl", (episode("d", 0),))
    assert page.get("api/episodes", {"If-None-Match": tag}, run="run").status == 200
    assert page.table("run")["rows"] == 6


def test_a_file_that_was_replaced_shows_what_it_is_now(run: Path, page: Page) -> None:
    assert page.table("run")["rows"] == 5
    write(run / "trajectories" / "step-000002.jsonl", (episode("new", 0, turn("9", 2.0)),))
    (run / "trajectories" / "eval-8.jsonl").unlink()
    table = page.table("run")
    assert (table["rows"], [table["strings"][number] for number in table["task"]]) == (1, ["new"])
    assert page.api("episode", run="run", file="step-000002.jsonl", line=1)["reward"] == 2.0
    assert page.get("api/episode", run="run", file="eval-8.jsonl", line=1).status == 404


def test_an_evaluation_that_is_being_played_grows_on_the_page(run: Path, page: Page) -> None:
    for number, task in enumerate("xxy", start=1):
        with growing(run / "trajectories" / "start-8.key-0.partial", max_rounds=8) as add:
            add(episode(task, number, turn("2")))
        table = page.table("run")
        assert (table["files"][-1]["kind"], table["files"][-1]["partial"], table["files"][-1]["rows"]) == (
            "start",
            True,
            number,
        )
    groups = table["group"][-3:]
    assert groups[0] == groups[1] != groups[2]
    found = page.api("group", run="run", file="start-8.key-0.partial", group=groups[0])
    assert [member["sample"] for member in found["members"]] == [1, 2]


def test_a_folder_that_is_read_for_the_first_time_tells_how_far_that_is(
    run: Path, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, read = threading.Event(), episodes.read_file

    def slow(file: EpisodeFile, known: object, progress: object) -> object:
        gate.wait(30)
        return read(file, known, progress)  # type: ignore[arg-type]

    monkeypatch.setattr(episodes, "read_file", slow)
    monkeypatch.setattr(episodes, "WAIT", 0.01)
    reply = page.get("api/episodes", run="run")
    assert (reply.status, set(reply.value["indexing"])) == (202, {"done", "of"})
    gate.set()
    assert page.table("run")["rows"] == 5


def test_an_episode_is_told_token_by_token(page: Page) -> None:
    found = page.api("episode", run="run", file="step-000002.jsonl", line=3)
    assert (found["task"], found["line"], found["group"], found["sample"]) == (
        {"id": "a", "env": "", "goal": "goal of a"}, 3, 0, 2)  # fmt: skip
    assert found["fork"] == {"parent": 0, "turn": 1, "token": 1, "num_forced": 1, "learned": False}
    assert found["neighbours"] == [1, 2, 3]
    assert found["openings"] == [{"agent": "", "text": "Solve a."}]
    first, second = found["turns"]
    assert (first["kind"], first["name"], first["action"], first["text"]) == (
        "call",
        "python",
        "1 + 1",
        "one two three",
    )
    assert (first["observation"], first["tool"]["calls"], first["replayed"]) == ("the observation", 1, True)
    tokens = second["tokens"]
    assert tokens["origin"] == ["replayed", "forced", ""]
    assert tokens["logprobs"] == [-0.5] * 3
    assert {name: tokens[name] for name in NUMBERS}["advantages"] == [0.25, None, -0.75]


def test_tokens_without_a_tokenizer_are_told_by_their_ids(page: Page) -> None:
    found = page.api("episode", run="run", file="eval-8.jsonl", line=1)
    tokens = found["turns"][0]["tokens"]
    assert (found["turns"][0]["text"], tokens["pieces"], tokens["values"]) == ("2", ["⟨502⟩", "⟨503⟩", "⟨504⟩"], None)


def test_a_tokenizer_that_the_run_names_decodes(run: Path, page: Page) -> None:
    (run / "config.yaml").write_text("model: {path: nano}\n")
    found = page.api("episode", run="run", file="eval-8.jsonl", line=1)
    assert "".join(found["turns"][0]["tokens"]["pieces"]) == found["turns"][0]["text"] != "2"


def test_a_group_is_told_in_short(page: Page) -> None:
    first, _, fork = page.api("group", run="run", file="step-000002.jsonl", group=0)["members"]
    assert (first["line"], first["parent"], first["fork_turn"]) == (1, None, None)
    assert (fork["line"], fork["parent"], fork["fork_turn"], fork["fork_token"]) == (3, 0, 1, 1)
    told = fork["turns"][1]
    assert (told["advantage"], told["value"], told["entropy"], told["trained"]) == (-0.25, 1.0, pytest.approx(2 / 3), 2)
    assert page.get("api/group", run="run", file="step-000002.jsonl", group=9).status == 404


def test_a_run_at_work_shows_each_step(run: Path, page: Page) -> None:
    holder = {"host": socket.gethostname(), "pid": os.getpid(), "job": ""}
    (run / ".lock").write_text(json.dumps(holder))
    (run / "config.yaml").write_text("steps: 10\n")
    assert page.api("runs")["runs"][0]["state"] == "running"
    for step in (4, 5):
        with open(run / "metrics.jsonl", "a") as file:
            file.write(json.dumps({"step": step, "time/step": 2.0}) + "\n")
        found = page.api("runs")["runs"][0]
        assert (found["step"], found["left"]) == (step, 2.0 * (10 - step))
    (run / ".lock").write_text("")
    assert page.api("runs")["runs"][0]["state"] == "finished"


def test_a_new_run_appears(run: Path, page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "LOOK", 0.0)
    assert len(page.api("runs")["runs"]) == 1
    write_run(run.parent / "second")
    assert [one["id"] for one in page.api("runs")["runs"]] == ["run", "second"]


def test_a_run_that_nothing_changed_is_not_read_again(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    page.api("runs")
    monkeypatch.setattr("rlx.view.runs.describe_run", None)
    assert page.api("runs")["runs"][0]["id"] == "run"


def test_several_agents_are_told_with_their_results(run: Path, page: Page) -> None:
    turns = (
        turn("a", 1.0, agent="anna", rewards={"bert": -1.0}),
        turn("b", 0.5, agent="bert", outcomes={"bert": True}),
    )
    write(run / "trajectories" / "eval-8.jsonl", (episode("b", 0, *turns),))
    found = page.api("episode", run="run", file="eval-8.jsonl", line=1)
    assert found["agents"] == [
        {"agent": "anna", "reward": 1.0, "success": False},
        {"agent": "bert", "reward": -0.5, "success": True},
    ]
    assert page.table("run")["reward"][-1] == 1.0


def test_the_seconds_of_a_training_episode_are_told(run: Path, page: Page) -> None:
    assert page.api("episode", run="run", file="step-000002.jsonl", line=1)["times"] is None
    spent = [
        EpisodeTimes(task="a", sample=sample, repeat=0, queue=0.5, opening=0.25, turns=(TurnTimes(1.0, 2.0),) * num)
        for sample, num in ((0, 2), (2, 1))
    ]
    save_times(times_path(run, 2, 0), spent)
    found = page.api("episode", run="run", file="step-000002.jsonl", line=1)["times"]
    assert found == {"queue": 0.5, "opening": 0.25, "turns": [[1.0, 2.0]] * 2}
    assert page.api("episode", run="run", file="step-000002.jsonl", line=3)["times"]["turns"] == [[1.0, 2.0]]
    assert page.api("episode", run="run", file="eval-8.jsonl", line=1)["times"] is None


def test_a_task_that_comes_twice_in_a_step_has_the_seconds_of_each(run: Path, page: Page) -> None:
    twice = (episode("a", 0, turn([5])), episode("a", 1, turn([5])))
    write(run / "trajectories" / "step-000003.jsonl", twice, twice)
    spent = [
        EpisodeTimes(
            task="a", sample=sample, repeat=repeat, queue=2.0 * repeat + sample, opening=0, turns=(TurnTimes(1, 1),)
        )
        for repeat in (1, 0)
        for sample in (0, 1)
    ]
    save_times(times_path(run, 3, 0), spent)
    found = [
        page.api("episode", run="run", file="step-000003.jsonl", line=line)["times"]["queue"] for line in (1, 2, 3, 4)
    ]
    assert found == [0.0, 1.0, 2.0, 3.0]


def test_words_of_prompts_completions_and_observations_are_found(run: Path, page: Page) -> None:
    assert search(page, "observation") == [0, 1, 2]
    assert search(page, "SOLVE b") == [3]
    assert search(page, "obser") == [0, 1, 2]
    assert search(page, '"one two three"') == [0, 1, 2]
    assert search(page, '"two one"') == []
    assert search(page, "nowhere NEAR(") == []
    for nothing in ("", " ", "()", '"', "*"):
        assert page.get("api/search", run="run", q=nothing).status == 400


def test_words_of_files_that_grow_and_are_replaced_are_found(run: Path, page: Page) -> None:
    assert search(page, "solve") == [0, 1, 2, 3, 4]
    write(run / "trajectories" / "eval-8.jsonl", (episode("zebra", 0),), (episode("b", 0),), (episode("b", 1),))
    assert search(page, "zebra") == [3]
    assert search(page, "solve b") == [4, 5]
    for number in range(3):
        with growing(run / "trajectories" / "start-8.key-0.partial", max_rounds=8) as add:
            add(episode(f"lion {number}", number))
        assert search(page, "lion") == [6, 7, 8][: number + 1]
    (run / "trajectories" / "eval-8.jsonl").unlink()
    assert search(page, "zebra") == []
    assert search(page, "lion") == [3, 4, 5]


def test_an_index_of_words_is_shared_and_made_again_if_damaged(run: Path, page: Page) -> None:
    assert search(page, "solve b") == [3]
    with serving(run.parent) as other:
        assert search(other, "solve b") == [3]
    path = places_of(run / "trajectories" / "eval-8.jsonl")[0]
    assert path.is_file()
    path.write_bytes(b"no database" * 1000)
    with serving(run.parent) as other:
        assert search(other, "solve b") == [3]


def search(page: Page, question: str) -> list[int]:
    """Ask until everything is indexed, as the page does."""
    table = page.get("api/episodes", run="run").headers["ETag"]
    for _ in range(200):
        found = page.api("search", run="run", q=question)
        if found["indexed"] == found["of"]:
            assert f'"{found["etag"]}"' == table
            return list(found["rows"])
    raise AssertionError("the index is not made")
