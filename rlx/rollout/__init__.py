"""Rollouts: engines, and the play of episodes.

play.py       entry: samplers and episodes of a step    growth.py    coroutines of samplers
episode.py    one episode                               stage.py     scheduler of samplers, episodes and engine
engine.py     interface of engines                      row.py       one request; choice.py and sampling.py: a token
torch/, vllm/, remote/, routed.py, table.py: engines    together.py  ranks
fork.py       replays and forced tokens                 measure.py   metrics of a step

A new engine implements `Engine` in engine.py.
"""
