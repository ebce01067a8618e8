"""Tasks of rounds: in threads or on Dask, given again where a worker is lost."""
