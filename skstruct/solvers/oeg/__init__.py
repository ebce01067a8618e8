"""Online exponentiated gradient: coordinate ascent in the dual of a smooth loss."""
