"""A set-up that cannot succeed."""

import sys

sys.exit("ERROR: No matching distribution found for jaxx==9.9 (from -r requirements.txt (line 1))")
