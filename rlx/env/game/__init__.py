"""Games: one file each, played by declared actions."""
