"""What structures share whose parts are items, each scored by its own features."""
