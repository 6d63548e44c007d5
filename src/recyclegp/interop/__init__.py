"""Other libraries' fitted models as modules, and ensembles as other libraries' models."""
