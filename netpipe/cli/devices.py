"""`netpipe devices`: the device and the host of this machine."""

from pathlib import Path

import click

from netpipe.cli.console import as_json, baselines_option, bold_first, output, print_json


@click.command()
@baselines_option
@as_json
def devices(baselines: Path, as_json: bool) -> None:
    """Print the device of this machine, its key, and whether a baseline matches it."""
    from netpipe.device.detection import devices_document, find_device
    from netpipe.device.host import this_host

    document = devices_document(find_device(), this_host(), baselines)
    if as_json:
        print_json(document)
        return
    for part in ("device", "host", "versions", "baseline"):
        output.print(bold_first(part))
        for name, value in document[part].items():
            output.print(f"  {name}: {value}")
