"""Learners: batches, updates and checkpoints.

    rows.py     rows that credit sees
    batch.py    the forest of segments of a step
    shares.py   units, minibatches, and the micro-batches of each rank
    packing.py  segments side by side; layout.py and attention.py: which tokens see which
    scorer.py   columns of tokens; logprob.py: log-probs in chunks
    learner.py  the update, for all learners
    torch.py    a learner of one process; deepspeed.py: one of many

A new learner is a subclass of `Learner` in learner.py.
"""
