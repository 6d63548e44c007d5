"""The commands, a few to a file; `cli.py` puts them together.

Importing them imports nothing heavy: `--help` must be there at once. What a command needs (torch takes
seconds) it imports when it runs.
"""
