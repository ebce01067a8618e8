"""Engines: tasks in threads, in processes, on Dask and on Ray, given again where a worker is lost.

A kind of workers brings three methods (:class:`skstruct.solvers.engines.engine.Workers`); which
task goes where, and again, is the same for all of them.
"""
