"""The generated part of docs/commands.md."""

from tests.commands_document import DOCUMENT, GENERATED, write_tables


def test_the_tables_are_those_of_the_commands() -> None:
    """docs/commands.md has the tables that `python -m tests.commands_document` writes."""
    (found,) = GENERATED.findall(DOCUMENT.read_text())
    assert found == write_tables()
