"""The data sets here are tiny: their chunks have tasks of their own all the same, so that there is a tree."""

import pytest

from recyclegp.engines import store


@pytest.fixture(scope="session", autouse=True)
def a_task_for_each_chunk():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "POINTS", 1)
        yield
