"""What the command line does, a file a command."""
