"""Research around mechtrace: baselines, the paper's tables, studies and benchmarks.

Enters: recordings and simulated worlds. Happens: methods are trained, compared and measured, each
in its own process. Leaves: rows in JSON files, tables and figures. The lab imports only what the
packages of mechtrace export.
"""

import logging

__version__ = "0.1.0"

# messages of the lab go where those of mechtrace go: to the terminal of its commands
logging.getLogger(__name__).parent = logging.getLogger("mechtrace")
