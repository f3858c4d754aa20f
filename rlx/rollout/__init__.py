"""Rollouts: engines, and the play of episodes.

play.py         entry: samplers and episodes of a step
growth.py       coroutines of samplers, validated
scheduler.py    order of growths, episodes and the engine
episode.py      one episode; speech.py: text and tokens
fork.py         replays and forced tokens
distributed.py  shares of the ranks; waves.py: steps that count turns
engine.py       interface of engines; torch/, vllm/, remote/, routed.py and table.py: engines
row.py          one request; choice.py and sampling.py: a token
measure.py      metrics of a step

A new engine implements `Engine` in engine.py.
"""
