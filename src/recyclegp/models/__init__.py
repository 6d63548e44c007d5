"""The objects users hold, Module and Ensemble, and what makes them: fields, checks, and calls into the rooms below."""
