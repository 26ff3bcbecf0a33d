"""Whether what was compared since a rollout is good enough: bounds, and the decision."""
