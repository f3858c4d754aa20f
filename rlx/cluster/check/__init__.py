"""`rlx check`: a short run on this hardware, judged."""
