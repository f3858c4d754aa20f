"""A run and its stages.

    run.py         settings, built from the configuration
    execution.py        open a run, record steps, save, end
    trainee.py     engine and learner of a model
    curriculum.py  tasks of every step
    choose.py      options that suit each other

rlx.training calls warm.py, resume.py, pipeline.py, rehearsal.py, judge.py and closing.py; commands call serve.py,
evaluation_run.py and stored_speech.py.
"""
