"""Import this module first: afterwards modules of the directory above can be imported, for example waiting."""

import os
import sys

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
