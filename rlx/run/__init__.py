"""A run and its stages.

run.py      settings, built from the configuration    life.py        open a run, record steps, save, end
trainee.py  engine and learner of a model             curriculum.py  tasks of every step
warm.py, resume.py, pipeline.py, rehearsal.py and judge.py are called by rlx.train.
choose.py   options that suit each other              serve.py, benchmark.py and heard.py: called by commands
"""
