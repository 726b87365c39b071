"""mechtrace: how much of each mechanism is at work, when, and how surely."""
