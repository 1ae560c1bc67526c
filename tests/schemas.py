"""The JSON Schemas of netpipe's documents, made from the types: `python -m tests.schemas`."""

import inspect
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date
from enum import StrEnum
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NotRequired,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import netpipe
from netpipe.cli.measure import Measurements
from netpipe.cli.work import PrintedWork
from netpipe.device import detection, machine
from netpipe.diagnosis.diagnosis import Diagnosis
from netpipe.gate import baseline, waivers
from netpipe.gate.baseline_changes import FigureChange
from netpipe.gate.work_baselines import WorkBaselineDocument
from netpipe.history.entries import Entry
from netpipe.judge.judgement import Judgement
from netpipe.linting.experiments.trials import PrintedTrials
from netpipe.linting.linter import LintReport
from netpipe.plugin import outputs
from netpipe.results import measurement
from netpipe.results.fields import Document, Inlined, Interval, MayBeAbsent, Must
from netpipe.results.measurement import Measurement
from netpipe.results.work_profile import WorkProfile
from netpipe.resuming.checking import ResumeReport
from netpipe.throughput.document import ThroughputDocument
from netpipe.verdict.document import PrintedMeasurement
from netpipe.verdict.hosts import HostsReport
from netpipe.verdict.kinds import Verdict
from netpipe.watching.window import Window
from netpipe.workload.formats import index
from netpipe.workload.formats.dropped import Dropped

FOLDER: Final = Path(netpipe.__file__).parent / "schemas"
DOCUMENTS: Final[Mapping[str, Sequence[Any]]] = {
    "baseline.1": [baseline.BaselineDocument],
    "devices.1": [detection.Devices],
    "diagnosis.1": [Diagnosis],
    "doctor.1": [machine.Doctor],
    "history.1": [Entry],
    "hosts.1": [HostsReport],
    "index.1": [index.Index],
    "judgement.1": [Judgement],
    "lint.1": [Annotated[LintReport, Must(isGraph=True)], PrintedTrials],
    "measurement.1": [Measurement, PrintedMeasurement],
    "measurements.1": [Measurements],
    "resume.1": [ResumeReport],
    "run.1": [outputs.RunDocument],
    "throughput.1": [ThroughputDocument],
    "training.1": [Window],
    "work-baseline.1": [WorkBaselineDocument],
    "work.1": [WorkProfile, PrintedWork],
}
"""The types of each document, which has the fields of all; the first describes it."""

OPEN: Final = {
    *(Measurement, Interval, Verdict, LintReport),
    *(measurement.Device, measurement.Host, measurement.Waits, measurement.Rounds),
    *(measurement.Finding, measurement.BlockingLine, measurement.GpuHealth),
    *(measurement.CalibrationTurns, Measurements, index.Index, index.Split, index.Shard, Dropped),
    *(baseline.BaselineDocument, baseline.CommitInfo, WorkBaselineDocument),
    *(detection.Devices, detection.DeviceFacts, detection.HostFacts, detection.StoredBaselines),
    *(machine.Doctor, machine.Machine, machine.ComparedBaselines),
    *(waivers.Waiver, FigureChange),
    *(outputs.RunDocument, outputs.Accepted, outputs.BaselineChange, outputs.ListedWaiver),
    *(outputs.PrintedComparison, outputs.OtherVersion, outputs.PrintedDuet),
}
"""The types whose objects may have more fields than these."""

Schema = dict[str, Any]
_SCALARS: Final = {
    str: "string",
    date: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    NoneType: "null",
}
_OPTIONAL: Final = get_args(MayBeAbsent[int])[-1]
_INLINED: Final = get_args(Inlined[int])[-1]
_ATTRIBUTE: Final = re.compile(r"^    (\w+): (.+(?:\n {8,}.+)*)", re.MULTILINE)

# "#:" above a field or beside it.
_FIELD: Final = re.compile(r"((?:^    #:.+\n)*)^    (\w+): (?:.*  #:(.+))?", re.MULTILINE)


def build_schema(name: str) -> Schema:
    """Return the schema of a document such as "measurement.1"."""
    definitions: dict[str, Schema] = {}
    made = _Builder(definitions).build(*DOCUMENTS[name])
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"netpipe.{name.replace('.', '/')}",
    }
    return {**head, **made, **({"$defs": definitions} if definitions else {})}


def write_schemas() -> None:
    """Write the schema of every document into the package."""
    for name in DOCUMENTS:
        text = json.dumps(build_schema(name), indent=2, ensure_ascii=False)
        (FOLDER / f"{name}.json").write_text(f"{text}\n", encoding="utf-8")


class _Builder:
    """Builds the schemas of types; schemas of objects become definitions of the document."""

    def __init__(self, definitions: dict[str, Schema]) -> None:
        self._definitions = definitions

    def build(self, *kinds: Any) -> Schema:
        """Return the schema of an object with the fields of some types."""
        first, keywords = kinds[0], dict[str, object]()
        if get_origin(first) is Annotated:
            first, must = get_args(first)
            keywords = must.keywords
        made: Schema = {"description": _describe(first), "type": "object", **keywords}
        required, properties = list[str](), dict[str, Schema]()
        if issubclass(first, Document):
            properties["schema"] = {"const": first.SCHEMA}
            required.append("schema")
        for kind in _inline(first, *kinds[1:]):
            described = _describe_fields(kind)
            for name, hint in get_type_hints(kind, include_extras=True).items():
                if name == "SCHEMA" or _INLINED in get_args(hint):
                    continue
                if _is_required(name, hint, kind):
                    required.append(name)
                field = self._convert(hint)
                if name in properties:
                    field = {"allOf": [properties[name], field]}
                elif name in described:
                    # The field's description replaces that of its type.
                    field = {"description": "", **field} | {"description": described[name]}
                properties[name] = field
        made |= {"required": required, "properties": properties}
        return made if first in OPEN else made | {"additionalProperties": False}

    def _convert(self, kind: Any) -> Schema:
        origin, arguments = get_origin(kind), get_args(kind)
        if origin is NotRequired:
            return self._convert(arguments[0])
        if origin is Annotated:
            return self._convert_annotated(*arguments)
        if origin in (Union, UnionType):
            return _allow_null(*map(self._convert, arguments))
        if origin is Literal or (isinstance(kind, type) and issubclass(kind, StrEnum)):
            values = [*arguments] or [each.value for each in kind]
            return {"const": values[0]} if len(values) == 1 else {"enum": values}
        if origin in (tuple, list, Sequence):
            return self._convert_array(*arguments)
        if origin in (dict, Mapping):
            return self._convert_mapping(*arguments)
        if kind in _SCALARS:
            return {"type": _SCALARS[kind]}
        if kind in (Any, object):
            return {}
        for name, kinds in DOCUMENTS.items():
            if kind is (get_args(kinds[0]) or kinds)[0]:
                return {"$ref": f"{name}.json"}
        if kind.__name__ not in self._definitions:
            self._definitions[kind.__name__] = {}  # the type may be recursive
            self._definitions[kind.__name__] = self.build(kind)
        return {"$ref": f"#/$defs/{kind.__name__}"}

    def _convert_annotated(self, kind: Any, *notes: Any) -> Schema:
        musts = [note for note in notes if isinstance(note, Must)]
        others = [note for note in notes if not isinstance(note, Must) and note != _OPTIONAL]
        made = self._convert(others[-1] if others else kind)
        # A closed object with a reference would refuse the fields of the reference.
        if any("additionalProperties" in must.keywords for must in musts):
            made = self.build(kind)
        for must in musts:
            made = _merge(made, must.keywords)
            if must.name:
                self._definitions[must.name] = made
                made = {"$ref": f"#/$defs/{must.name}"}
        return made

    def _convert_array(self, item: Any, *others: Any) -> Schema:
        made = {"type": "array", "items": self._convert(item)}
        count = 1 + len(others)
        return made if others in ((), (...,)) else {**made, "minItems": count, "maxItems": count}

    def _convert_mapping(self, key: Any, value: Any) -> Schema:
        made: Schema = {"type": "object"}
        if get_origin(key) is Literal:
            made["propertyNames"] = {"enum": [*get_args(key)]}
        values = self._convert(value)
        return {**made, "additionalProperties": values} if values else made


def _inline(*kinds: Any) -> Iterator[Any]:
    for kind in kinds:
        yield kind
        for hint in get_type_hints(kind, include_extras=True).values():
            if _INLINED in get_args(hint):
                yield get_args(hint)[0]


def _is_required(name: str, hint: Any, kind: Any) -> bool:
    if get_origin(hint) is NotRequired or name in getattr(kind, "__optional_keys__", ()):
        return False
    return not (get_origin(hint) is Annotated and _OPTIONAL in get_args(hint)[1:])


def _allow_null(*choices: Schema) -> Schema:
    filled = [choice for choice in choices if choice != {"type": "null"}]
    if len(filled) == 1 and isinstance(filled[0].get("type"), str):
        return {**filled[0], "type": [filled[0]["type"], "null"]}
    return {"anyOf": list(choices)}


def _merge(one: Schema, other: Mapping[str, Any]) -> Schema:
    merged = dict(one)
    for name, value in other.items():
        inner = merged.get(name)
        merged[name] = _merge(inner, value) if isinstance(inner, dict) else value
    return merged


def _describe(kind: Any) -> str:
    return _to_json_words((vars(kind)["__doc__"] or "").partition("\n\n")[0])


def _to_json_words(text: str) -> str:
    return re.sub(r"\bNone\b", "null", " ".join(text.split()))


def _describe_fields(kind: Any) -> dict[str, str]:
    described: dict[str, str] = {}
    # The bases of a TypedDict are not among those of the class.
    bases = getattr(kind, "__orig_bases__", kind.__mro__[1:])
    for base in (*reversed(bases), kind):
        attributes = (inspect.getdoc(base) or "").partition("Attributes:\n")[2]
        found = dict(_ATTRIBUTE.findall(attributes))
        with suppress(OSError, TypeError):  # a base class of Python, or a class made by a call
            for above, name, beside in _FIELD.findall(inspect.getsource(base)):
                if text := f"{above.replace('#:', ' ')}{beside}":
                    found[name] = text
        described |= {name: _to_json_words(text) for name, text in found.items()}
    return described


if __name__ == "__main__":
    write_schemas()
