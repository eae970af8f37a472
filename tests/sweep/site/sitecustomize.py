"""On the path of a test's notebook kernels: the launcher starts the fake engine instead of SGLang."""

import os
import sys

if os.environ.get("USE_FAKE_ENGINE"):
    from specswitch.serving import argv

    argv.server_program = lambda: [sys.executable, os.environ["USE_FAKE_ENGINE"]]
