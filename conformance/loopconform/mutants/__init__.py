"""Wrong loops, one fault each, and how the suite fares against them: the kill matrix."""
