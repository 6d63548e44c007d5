"""The rules of committees written out in NumPy, one point at a time."""

import math

import numpy as np


def product_of_experts(rule, mu, v, m, s):
    """One point at a time, from the products of densities: (exponent, mean, variance) of every factor."""
    K, n = mu.shape
    m, s = (np.broadcast_to(t, (K, n)) for t in (m, s))
    means, variances = [], []
    for j in range(n):
        H = [0.5 * math.log(s[k, j] / v[k, j]) for k in range(K)]
        beta = {
            "poe": [1.0] * K,
            "gpoe": [1 / K] * K,
            "gpoe-entropy": [h / sum(H) for h in H],
            "bcm": [1.0] * K,
            "rbcm": H,
            "grbcm": [1.0, *H[1:]],
        }[rule]
        factors = [(beta[k], mu[k, j], v[k, j]) for k in range(K)]
        if "bcm" in rule:
            factors += [(-beta[k], m[k, j], s[k, j]) for k in range(K)]
            factors += [(1 / K, m[k, j], s[k, j]) for k in range(K)]
        # the product of N(a, b)^w, by completing the square numerically: its log is a parabola in f
        f = np.array([-1.0, 0.0, 1.0])
        log = sum(-0.5 * w * (f - a) ** 2 / b for w, a, b in factors)
        curvature, slope = log[0] - 2 * log[1] + log[2], 0.5 * (log[2] - log[0])
        means.append(-slope / curvature)
        variances.append(-1 / curvature)
    return np.array(means), np.array(variances)
