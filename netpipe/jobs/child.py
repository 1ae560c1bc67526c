"""The process of a session: `python -m netpipe.jobs.child` runs the job that its request names.

Loader workers import this module again, so its top level imports almost nothing.
"""

import sys


def main() -> None:
    """Run the job of this process's request on the targets that the request names."""
    from netpipe.errors import NetpipeError
    from netpipe.jobs.registry import import_factories, read_request, run_job

    try:
        request = read_request()
    except NetpipeError as error:
        sys.exit(str(error))
    if request is None:
        sys.exit("this module is started by netpipe, not by hand")
    run_job(request, lambda: import_factories(request))


if __name__ == "__main__":
    main()
