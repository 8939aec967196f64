"""Many recordings: what they are, where their texts go, and how they are decoded together, resumed and reported."""
