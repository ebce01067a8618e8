"""Training on shards: rounds of solvers, checkpoints, and an engine of threads or Dask."""
