"""Pictures -> key points, the channels that stage 1 learns from.

Enters: a Panel of pictures. Happens: a network learns key points without labels; a moving average
of their positions stands for what one picture does not show. Leaves: a Panel of coordinates, and
the subspace of the latents that a picture determines.
"""
