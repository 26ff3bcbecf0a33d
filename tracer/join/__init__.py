"""The join: what was observed of a room goes in, a verdict comes out. Pure functions only."""
