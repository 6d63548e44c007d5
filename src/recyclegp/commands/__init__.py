"""The commands, a few to a file. What is heavy (torch takes seconds) is imported when one runs, not for `--help`."""
