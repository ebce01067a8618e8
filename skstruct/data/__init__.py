"""Reading what users give: samples, labels, constraints."""
