"""The table of deliberate faults: whether it still fits the source and the tests."""

import ast
import re

import pytest
from benchmarks.mutations.table import FAULTS

from tests.meta.source import PACKAGE, ROOT


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_is_a_change_of_the_source_with_tests(fault):
    """Its text occurs once, what replaces it can be compiled, and its tests are there."""
    changed = fault.applied((PACKAGE / fault.file).read_text())
    ast.parse(changed)
    assert fault.text != fault.replacement
    assert fault.tests
    for name in fault.tests:
        path, _, test = name.partition("[")[0].partition("::")
        source = (ROOT / "tests" / path).read_text()
        assert not test or re.search(rf"^def {test}\(", source, re.MULTILINE)


def test_names_of_faults_differ():
    names = [fault.name for fault in FAULTS]
    assert len(set(names)) == len(names)
    assert len(FAULTS) >= 60
