"""The bifurcation task, in which every value is known exactly."""
