"""Training in rounds over shards: mapped tasks without state, and a driver that adds in order."""
