"""Build the embedded model again, in hours of a core or two (`--processes 2`); an interrupted build resumes."""

from __future__ import annotations

from rlx.hardware.profile import set_threads

set_threads(1)

from scripts.nano.pretrain import main  # noqa: E402  (threads are chosen before torch is imported)

if __name__ == "__main__":
    main()
