"""Run the command line as `python -m driftline.cli`."""

import sys

from driftline.cli.main import main

sys.exit(main())
