"""A taskset of verifiers: sums, which are asked again until the answer is right."""

import verifiers.v1 as vf

__all__ = ["Patient", "Sums"]


class Data(vf.TaskData):
    answer: str


class Sum(vf.Task[Data, vf.State, vf.TaskConfig]):
    @vf.reward
    async def right(self, task, trace) -> float:
        return float(trace.branches[-1].messages[-1].content == task.answer)


class Config(vf.TasksetConfig):
    more: int = 1


class Sums(vf.Taskset[Sum, Config]):
    def load(self):
        for i in range(50):
            said = f"What is {i} + {self.config.more}?"
            yield Sum(Data(prompt=said, system_prompt="Sums.", answer=str(i + self.config.more)), self.config.task)


class Roles(vf.EnvConfig):
    player: vf.AgentConfig = vf.AgentConfig()


class Patient(vf.Env[Roles]):
    async def run(self, task, agents):
        async with agents.player.interaction(task) as talk:
            while (segment := await talk.turn() if not talk.trace.num_turns else await talk.turn("No.")).last_reply:
                if segment.last_reply in (task.data.answer, "enough"):
                    break
