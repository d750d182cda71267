"""What does not fit into memory is named, with the memory that it needs."""

import jax
import pytest

from cavity.numerics.memory import memory, naming_memory


def test_what_is_larger_than_the_machine():
    assert 1e8 < memory() < 1e14
    said = r"^the whole needs about 1e\+05 GB .* ask for less$"
    with (
        pytest.raises(MemoryError, match=said),
        naming_memory("the whole", 1e14, "ask for less"),
    ):
        pytest.fail("it was begun")


@pytest.mark.parametrize(
    "error", [jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory"), MemoryError()]
)
def test_what_the_system_refuses(error):
    said = r"^it needs about 2 GB of memory, more than there is: "
    with pytest.raises(MemoryError, match=said), naming_memory("it", 2e9, "ask for less"):
        raise error


def test_other_errors_stay_what_they_are():
    error = jax.errors.JaxRuntimeError("INTERNAL")
    kind = jax.errors.JaxRuntimeError
    with pytest.raises(kind) as caught, naming_memory("it", 2e9, "ask for less"):
        raise error
    assert caught.value is error
