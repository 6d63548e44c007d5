"""Files: written whole or not at all, and read as if every byte came from a stranger.

`container` is the format (safetensors with a JSON header), `fields` checks what a header holds, `atomic` writes. The
record of a module is in `record_json`, and what an ensemble adds to it in `member_json`: tables with a line for each
field. How these make a module or an ensemble stands beside them, in `models`.
"""
