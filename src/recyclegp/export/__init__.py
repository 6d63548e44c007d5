"""Posteriors as other libraries' models: what `Ensemble.to_gpytorch` and `to_botorch` give back."""
