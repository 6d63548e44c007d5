"""Several functions of one owner: outputs, classes, or a function and its noise. Each is a GP, and they are asked together."""
