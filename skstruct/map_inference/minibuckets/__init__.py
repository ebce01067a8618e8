"""Mini-buckets: bounds between the LP's and exact elimination's, and a search along their order."""
