"""What a run is given: processes, devices, memory, and how they are watched."""
