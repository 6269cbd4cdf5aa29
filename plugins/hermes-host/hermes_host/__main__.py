"""`python <path>/hermes_host`: the directory is a program, and so is a zip of it."""

import os
import sys

if not __package__:
    # This directory stands first in the search path now, where its modules would shadow Hermes' (`tools`, `agent`).
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or os.curdir) != here]
    sys.path.append(os.path.dirname(here))

from hermes_host.app import main  # noqa: E402  (only now can it be found)

if __name__ == "__main__":
    main()
