"""scontrol's words, read; no SLURM is needed."""

from __future__ import annotations

from rlx.runs.slurm import Record, SlurmError, call, find_job, read_jobs
from tests.errors import raises_naming
from tests.loops import for_each

WAITING = (
    "JobId=12 ArrayJobId=12 ArrayTaskId=2-3%2 JobName=rlx UserId=root(0) JobState=PENDING Reason=Resources "
    "Dependency=(null) PreemptTime=None NodeList= BatchHost="
)
RUNNING = (
    "JobId=13 ArrayJobId=12 ArrayTaskId=0 JobName=rlx JobState=RUNNING Reason=None PreemptTime=2026-11-21T11:20:34 "
    "ReqNodeList=(null) ExcNodeList=(null) NodeList=n[1-2] BatchHost=n1 Comment=JobState=FAILED"
)
OUT_OF_TIME = "JobId=14 JobName=rlx JobState=COMPLETING Reason=TimeLimit PreemptTime=None NodeList=n1"


def test_each_task_of_an_array_has_its_record() -> None:
    found = read_jobs(f"{WAITING}\n{RUNNING}\n\n{OUT_OF_TIME}\n")
    assert set(found) == {"12_2", "12_3", "12_0", "14"}
    assert found["12_2"].is_waiting
    assert not found["12_2"].is_over
    assert found["12_0"] == Record(state="RUNNING", reason="None", nodes="n[1-2]", is_preempted=True)
    assert found["14"].is_out_of_time
    assert not found["14"].is_over
    assert not found["14"].is_preempted


@for_each("state", ["COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY"])
def test_a_job_that_is_over_is_known_without_accounting(state: str) -> None:
    assert read_jobs(f"JobId=1 JobState={state} Reason=None")["1"].is_over


@for_each("text", ["", "garbage", "JobId=1", "JobId=1 ArrayJobId=1 ArrayTaskId=x-y JobState=RUNNING"])
def test_what_is_no_job_is_no_record(text: str) -> None:
    assert read_jobs(text) == {}


def test_a_job_knows_its_own_name() -> None:
    assert find_job({}) is None
    assert find_job({"SLURM_JOB_ID": "13"}) == "13"
    assert find_job({"SLURM_JOB_ID": "13", "SLURM_ARRAY_JOB_ID": "12", "SLURM_ARRAY_TASK_ID": "0"}) == "12_0"


def test_a_missing_or_failing_program_is_one_line() -> None:
    with raises_naming(SlurmError, "no-such-program", "PATH"):
        call("no-such-program")
    with raises_naming(SlurmError, "first second"):
        call("sh", "-c", "printf 'first\nsecond' >&2; exit 1")
