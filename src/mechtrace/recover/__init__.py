"""Stage 2: from latents and the experts' predictions to alpha(t). No torch in this room."""
