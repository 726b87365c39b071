from .findings import Diagnosis as Diagnosis
from .findings import Finding as Finding
from .goodness_of_fit import Convexity as Convexity
from .goodness_of_fit import convexity as convexity
from .goodness_of_fit import paper_test as paper_test
from .separation import static_sigma_min as static_sigma_min
from .verdict import diagnose as diagnose
