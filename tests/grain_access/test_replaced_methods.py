"""Methods that are replaced within a context."""

import pytest

from netpipe.grain_access.replaced_methods import replaced_method


class Base:
    """A class with a method."""

    def name(self) -> str:
        """Name the class that defines it."""
        return "base"


class Derived(Base):
    """A class that inherits it."""


@pytest.mark.parametrize("owner", [Base, Derived])
def test_a_class_is_as_before_after_its_method_was_replaced(owner: type[Base]) -> None:
    """An inherited method is inherited again, and an own one is the same object."""
    before = dict(vars(owner))
    replaced = replaced_method(owner, "name", lambda original: lambda self: f"not {original(self)}")
    with replaced:
        assert owner().name() == "not base"
    assert dict(vars(owner)) == before
