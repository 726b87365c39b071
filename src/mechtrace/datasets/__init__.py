"""Public recordings become Panels; they are read where they lie and never copied."""
