from .process import atomic_path as atomic_path
from .process import keep_to_threads as keep_to_threads
from .process import keeping_freed_memory as keeping_freed_memory
from .process import torch_threads as torch_threads
from .progress import bars as bars
from .progress import duration as duration
from .stochastic import generator as generator
from .stochastic import seeded as seeded
