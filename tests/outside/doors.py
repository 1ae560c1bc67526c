"""The only place of these tests that names modules within netpipe, which may move."""

import json
from typing import Any

from tests.outside.golden import ROOT


def schemas() -> dict[str, Any]:
    """Return every JSON schema that netpipe ships, by the name that others refer to it by."""
    paths = sorted((ROOT / "netpipe" / "schemas").glob("*.json"))
    return {path.name: json.loads(path.read_text(encoding="utf-8")) for path in paths}
