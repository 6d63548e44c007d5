"""Files: written whole or not at all, and read as if every byte came from a stranger.

`container` is the format (safetensors with a JSON header), `fields` takes a header apart, `atomic` writes. What modules
and ensembles put into a file stands beside them, in `models`.
"""
