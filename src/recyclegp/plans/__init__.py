"""Plans: one common sparse Gaussian process from sums that owners compute at home."""
