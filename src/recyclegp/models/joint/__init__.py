"""Several functions of one owner: outputs, classes, or a function and its noise.

Each of them is a Gaussian process. They are fitted, merged and asked together.
"""
