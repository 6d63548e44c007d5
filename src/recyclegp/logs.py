"""Where the library logs: nowhere, unless the user says where.

Who logs imports this; `import recyclegp` alone does not: `logging` takes half as long to import as Python to start.
"""

from __future__ import annotations

import logging

logging.getLogger(__package__).addHandler(logging.NullHandler())


def logger(name: str) -> logging.Logger:
    return logging.getLogger(name)
