"""Import this module before modules of the directory above, for example `waiting`."""

import os
import sys

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
