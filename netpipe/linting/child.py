"""`python -m netpipe.linting.child`: the process of a session that lints a target.

Loader workers import this module again, so its top level imports nothing heavy.
"""

import argparse
import sys
from contextlib import ExitStack


def child_command(loader: str) -> list[str]:
    """Return the command of a session that lints a target."""
    return [sys.executable, "-P", "-m", "netpipe.linting.child", "--loader", loader]


def main() -> None:
    """Run the session that this process was started for."""
    from netpipe.linting.request import LintRequest
    from netpipe.session.child import announce_import, require_request, run_job
    from netpipe.session.targets import resolve

    parser = argparse.ArgumentParser()
    parser.add_argument("--loader", required=True)
    arguments = parser.parse_args()
    request = require_request(parser, LintRequest)

    def lint_target(_: ExitStack) -> dict[str, object]:
        announce_import(request, arguments.loader)
        loader = resolve(arguments.loader)
        # After the user's code, which may have to configure jax before grain imports it.
        from netpipe.linting.job import lint_loader

        return {"lint": lint_loader(request, loader)}

    run_job(request, lint_target)


if __name__ == "__main__":
    main()
