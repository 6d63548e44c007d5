"""Inference on tensors and kernels, one function for each equation: no files, no options, no printing.

Read in this order: `least_squares` (the whole idea), `sites`, `posterior`, `packing`, `publishing`, `bounds`.
`linalg` has the one Cholesky factorisation, `optimiser` the one search.
"""
