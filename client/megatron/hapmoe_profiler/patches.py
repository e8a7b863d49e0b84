"""Wrapping functions of the job so that nothing of the wrapper can break it.

The wrapped function runs exactly once with the arguments that it was given, and its result or its
exception goes to the caller. What is done before and after it runs under guard: the first error is
logged and takes the patch away for good.
"""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable
from typing import Any

from . import log

# Given the call's arguments; what it returns goes to After.
Before = Callable[[tuple, dict], Any]
# Given Before's answer, the call's result (None where it raised) and its arguments.
After = Callable[[Any, Any, tuple, dict], None]


class Patch:
    """One wrapped function of a module or a class."""

    def __init__(self, name: str, before: Before | None = None, after: After | None = None) -> None:
        self.name = name
        self.live = False
        self._before = before
        self._after = after
        self._owner: Any = None
        self._attribute = ""
        self._original: Any = None
        self._wrapper: Any = None

    def install(self, owner: Any, attribute: str) -> bool:
        """Wraps `attribute` of `owner`; false where it is not there, or no plain function."""
        original = vars(owner).get(attribute)
        if not callable(original) or isinstance(original, (staticmethod, classmethod, type)):
            return False
        self._owner, self._attribute, self._original = owner, attribute, original
        self._wrapper = self._wrap(original)
        setattr(owner, attribute, self._wrapper)
        self.live = True
        return True

    def remove(self) -> None:
        """Puts the function back, and in modules that imported it by name. Where somebody has
        wrapped it since, or an object holds on to it, the wrapper stays and passes calls on."""
        self.live = False
        owners = [self._owner] if self._owner is not None else []
        if isinstance(self._owner, types.ModuleType):
            owners += [m for m in list(sys.modules.values()) if isinstance(m, types.ModuleType)]
        for owner in owners:
            if vars(owner).get(self._attribute) is self._wrapper:
                setattr(owner, self._attribute, self._original)
        self._owner = None

    def guard(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Calls `function`; on an error it logs, removes the patch and returns None."""
        if not self.live:
            return None
        try:
            return function(*arguments)
        except Exception as error:
            self._fail(error)
            return None

    def _fail(self, error: Exception) -> None:
        log.once(f"{self.name} is not recorded any more: {type(error).__name__}: {error}")
        try:
            self.remove()
        except Exception as failure:
            log.once(f"{self.name} could not be put back: {failure}")

    def _wrap(self, original: Callable[..., Any]) -> Callable[..., Any]:
        patch = self

        @functools.wraps(original)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if not patch.live:
                return original(*args, **kwargs)
            token = None
            if patch._before is not None:
                token = patch.guard(patch._before, args, kwargs)
            try:
                result = original(*args, **kwargs)
            except BaseException:
                if patch._after is not None:
                    patch.guard(patch._after, token, None, args, kwargs)
                raise
            if patch._after is not None:
                patch.guard(patch._after, token, result, args, kwargs)
            return result

        return wrapper


class Patches:
    """All patches of one profiler."""

    def __init__(self) -> None:
        self._patches: list[Patch] = []

    def add(self, patch: Patch, owner: Any, attribute: str) -> bool:
        """Installs a patch; false where there is nothing to wrap."""
        if not patch.install(owner, attribute):
            return False
        self._patches.append(patch)
        return True

    def live(self) -> list[str]:
        """Names of the patches that still record."""
        return [patch.name for patch in self._patches if patch.live]

    def remove(self) -> None:
        """Puts everything back, the last wrapped first."""
        for patch in reversed(self._patches):
            try:
                patch.remove()
            except Exception as error:
                log.once(f"{patch.name} could not be put back: {error}")
        self._patches.clear()
