"""What a GPU would have to be waited for: functions of torch whose result depends on numbers."""

from torch.utils._python_dispatch import TorchDispatchMode

# copies of Python's numbers to a GPU (lift_fresh), and of a GPU's to Python
ASKING = {"_local_scalar_dense", "nonzero", "is_nonzero", "masked_select", "_unique2", "equal", "lift_fresh"}


class Asking(TorchDispatchMode):
    """Collects their names while it is entered."""

    def __init__(self):
        super().__init__()
        self.found = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function._schema.name.removeprefix("aten::")
        if name in ASKING:
            self.found.append(name)
        if name.startswith(("index", "_index")) and isinstance(args[1], (list, tuple)):
            self.found += [f"{name} of bool" for i in args[1] if i is not None and str(i.dtype) == "torch.bool"]
        return function(*args, **(kwargs or {}))
