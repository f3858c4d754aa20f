"""Learners: batches, updates and checkpoints.

rows.py      rows that credit sees                              batch.py      the forest of segments of a step
shares.py    units, minibatches and micro-batches of ranks      packing.py, layout.py   segments side by side
scorer.py, logprob.py, attention.py   columns of tokens         learner.py    the update, for all learners
torch.py, deepspeed.py   learners                               checkpoint.py folders of checkpoints
"""
