"""The public interface: `__all__` of the three packages, with the signatures that tests/public.txt has.

A change of that file is a change of the interface: semantic versioning says what the next version is called. To write
it anew:

    python -m tests.test_public > tests/public.txt
"""

from __future__ import annotations

import ast
import enum
import inspect
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from importlib import import_module

import pytest

from tests.support.paths import ROOT

PACKAGES = ("icf", "linkpass", "unwind")


def interface() -> Iterator[str]:
    """Yield a line for each public name, and for each method, property, field and value that it has."""
    for package in PACKAGES:
        module = import_module(package)
        for name in module.__all__:
            thing = getattr(module, name)
            if not inspect.isclass(thing):
                yield f"{package}.{name}{signature(thing)}"
                continue
            bases = ", ".join(base.__name__ for base in thing.__bases__ if base is not object)
            yield f"{package}.{name}({bases})"
            yield from (f"    {line}" for line in members(thing))


def members(thing: type) -> Iterator[str]:
    """Yield the public members of a class, those that it inherits from our classes, too."""
    if issubclass(thing, enum.Enum):
        yield from (f"{each.name} = {each.value!r}" for each in thing)
        return
    if getattr(thing, "_is_protocol", False):
        pass
    elif issubclass(thing, BaseException) or "__init__" in vars(thing) or hasattr(thing, "_fields"):
        yield f"__init__{signature(thing)}"
    for name in sorted(vars(thing)):
        member = inspect.getattr_static(thing, name)
        if name.startswith("_"):
            continue
        if isinstance(member, (classmethod, staticmethod)):
            yield f"{name}{signature(member.__func__)}  # {type(member).__name__}"
        elif inspect.isfunction(member):
            yield f"{name}{signature(member)}"
        else:
            yield name


def signature(thing: Callable[..., object]) -> str:
    """Return names, kinds and defaults of the parameters; versions of Python write annotations in different ways."""
    parameters = inspect.signature(thing).parameters.values()
    return str(inspect.Signature([each.replace(annotation=inspect.Parameter.empty) for each in parameters]))


def test_the_interface_is_what_the_file_says() -> None:
    assert list(interface()) == (ROOT / "tests" / "public.txt").read_text().splitlines()


@pytest.mark.parametrize("package", PACKAGES)
def test_everything_public_has_a_docstring(package: str) -> None:
    module = import_module(package)
    for name in module.__all__:
        thing = getattr(module, name)
        assert thing.__name__ == name and inspect.getdoc(thing), name
        for method, member in vars(thing).items() if inspect.isclass(thing) else ():
            if inspect.isfunction(member) and not method.startswith("_"):
                assert inspect.getdoc(member), f"{name}.{method}"


def functions(package: str) -> Iterator[tuple[str, Callable[..., object]]]:
    """Yield the public functions of a package and the public methods of its classes, with their names."""
    module = import_module(package)
    for name in module.__all__:
        thing = getattr(module, name)
        if inspect.isfunction(thing):
            yield f"{package}.{name}", thing
        for method, member in vars(thing).items() if inspect.isclass(thing) else ():
            plain = getattr(member, "__func__", member)
            if inspect.isfunction(plain) and not method.startswith("_"):
                yield f"{package}.{name}.{method}", plain


def missing_sections(function: Callable[..., object]) -> Iterator[str]:
    """Yield what the docstring of a function lacks of Args, Returns or Yields, and Raises, as its code demands them."""
    text = inspect.getdoc(function) or ""
    parameters = [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]
    returned = str(inspect.signature(function).return_annotation)
    for name in parameters:
        if "\nArgs:\n" not in text or f"\n    {name}: " not in text:
            yield f"Args: {name}"
    if returned != "None" and not any(f"\n{heading}:\n" in text for heading in ("Returns", "Yields")):
        yield "Returns"
    body = ast.walk(ast.parse(textwrap.dedent(inspect.getsource(function))))
    if any(isinstance(node, ast.Raise) and node.exc is not None for node in body) and "\nRaises:\n" not in text:
        yield "Raises"


@pytest.mark.parametrize("package", PACKAGES)
def test_public_functions_describe_arguments_results_and_errors(package: str) -> None:
    found = [f"{name}: {what}" for name, function in functions(package) for what in missing_sections(function)]
    assert found == []


def test_a_missing_section_is_found() -> None:
    def first(path: str, size: int) -> bytes:
        """Return bytes.

        Args:
            path: a file.
        """
        raise OSError(path, size)

    assert list(missing_sections(first)) == ["Args: size", "Returns", "Raises"]


# functions that read what a user names; what they call raises the errors
READERS = {
    "icf": ["open_image", "load_tables"],
    "linkpass": ["run_pass", "verify_image"],
    "unwind": ["graph", "open_by_build_id", "open_or_build", "open_process", "open_resolver", "read_pcs"],
}


@pytest.mark.parametrize("package", PACKAGES)
def test_readers_say_which_errors_they_raise(package: str) -> None:
    for name in READERS[package]:
        text = inspect.getdoc(getattr(import_module(package), name)) or ""
        assert "Error: " in text.partition("\nRaises:\n")[2], name


@pytest.mark.parametrize("package", PACKAGES)
def test_other_names_are_not_there(package: str) -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Unknown'"):
        _ = import_module(package).Unknown


@pytest.mark.parametrize("package", PACKAGES)
def test_nothing_is_imported_before_it_is_used(package: str) -> None:
    code = f"import sys, {package}; print([name for name in sys.modules if name.startswith(('{package}.', 'numpy'))])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True, cwd=ROOT) == "[]\n"


if __name__ == "__main__":
    print("\n".join(interface()))
