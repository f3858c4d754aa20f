"""Kernel-enforced containment of child processes: `box` starts them, `server` runs in them."""
