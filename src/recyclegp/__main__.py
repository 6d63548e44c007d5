"""`python -m recyclegp` is the command `recyclegp`."""

from .cli import app

app()
