"""The objects users hold, Module and Ensemble, and what makes them: fit, merge and load.

They are thin: fields, checks at the door, and calls of the functions in the rooms below.
"""
