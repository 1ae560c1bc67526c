"""`netpipe devices`: the device and the host of this machine."""

from pathlib import Path

import click

from netpipe.cli.console import as_json, bold_first, folder, output, print_json, report_errors


@click.command()
@click.option(
    "--baselines", type=folder, default=Path("baselines"), show_default=True,
    help="The folder of baselines.",
)  # fmt: skip
@as_json
@report_errors
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
