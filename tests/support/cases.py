"""Many small cases in one test: pytest takes longer to collect and report a case than such a case takes to run."""

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest

Test = Callable[..., None]


def for_each(
    names: str | tuple[str, ...], values: Iterable[Any], ids: object = None
) -> Callable[[Test], Test]:
    """Call a test once for each value, as `pytest.mark.parametrize` does; a failure names its case.

    All cases run, also after a failure. They share the test's fixtures: a test that changes one needs parametrize.
    """
    parameters = (
        tuple(name.strip() for name in names.split(",")) if isinstance(names, str) else names
    )
    cases = [(value,) if len(parameters) == 1 else tuple(value) for value in values]

    def decorate(test: Test) -> Test:
        @functools.wraps(test)
        def run_cases(*args: Any, **kwargs: Any) -> None:
            failures: list[Exception] = []
            for case in cases:
                given = dict(zip(parameters, case, strict=True))
                try:
                    test(*args, **kwargs, **given)
                except pytest.skip.Exception:
                    continue  # this case alone
                except Exception as error:  # noqa: BLE001 - reported below, with the others
                    error.add_note(
                        "case: "
                        + ", ".join(f"{name}={value!r:.500}" for name, value in given.items())
                    )
                    failures.append(error)
            if len(failures) == 1:
                raise failures[0]
            if failures:
                raise ExceptionGroup(f"{len(failures)} of {len(cases)} cases fail", failures)

        signature = inspect.signature(test)
        rest = [value for name, value in signature.parameters.items() if name not in parameters]
        run_cases.__signature__ = signature.replace(parameters=rest)  # type: ignore[attr-defined]  # pytest reads it
        return run_cases

    return decorate
