"""Print a `netpipe.judgement/1` document as a table in Markdown."""

import json
import sys
from pathlib import Path

document = json.loads(Path(sys.argv[1]).read_text("utf-8"))
decisive = f": {', '.join(document['decisive'])}" * bool(document["decisive"])
lines = [
    f"### {document['verdict']}{decisive}",
    "",
    f"`{document['loader']}` against {document['base']}",
    "",
    "| question | outcome | reason |",
    "|---|---|---|",
]
for check in document["checks"]:
    declared = f"declared: {check['declared']}; " * bool(check["declared"])
    reason = f"{declared}{check['reason']}".replace("|", "\\|").replace("\n", " ")
    lines.append(f"| {check['question']} | {check['outcome']} | {reason} |")
sys.stdout.write("\n".join(lines) + "\n")
