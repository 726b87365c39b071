from .faults import FAULTS as FAULTS
from .faults import Fault as Fault
from .machine import Zoo as Zoo
from .machine import ZooConfig as ZooConfig
from .systems import SYSTEMS as SYSTEMS
from .systems import System as System
