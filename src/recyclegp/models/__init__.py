"""The objects users hold, Module and Ensemble, and what makes them: fit, merge and load.

They are thin: fields, checks of what comes in, and calls of the functions in the packages below.
"""
