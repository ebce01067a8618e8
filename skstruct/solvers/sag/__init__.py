"""SAG and SAGA for conditional random fields."""
