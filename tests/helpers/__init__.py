"""References, drawn problems and scripts that tests share."""
