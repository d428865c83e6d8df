"""`python -m riverrun.cli`, where the `riverrun` script is not on the path."""

import sys

from riverrun.cli import main

sys.exit(main())
