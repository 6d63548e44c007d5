"""Files: written whole or not at all, and read as if every byte came from a stranger; `container` is the format."""
