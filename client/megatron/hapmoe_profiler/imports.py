"""Calls back when a module has been imported, without importing it."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Callable, Sequence

Callback = Callable[[types.ModuleType], None]


class _Loader(importlib.abc.Loader):
    """Stands in for a module's loader until the module has run."""

    def __init__(self, loader: importlib.abc.Loader, callback: Callback) -> None:
        self._loader = loader
        self._callback = callback

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: types.ModuleType) -> None:
        # The module sees the loader that it would have had.
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._callback(module)

    def __getattr__(self, name: str) -> object:
        return getattr(self._loader, name)


class ImportHook(importlib.abc.MetaPathFinder):
    """Callbacks of modules by name. They run before the importer sees the module, so that every
    `from module import name` gets what the callback left there. Callbacks must not raise."""

    def __init__(self, callbacks: dict[str, Callback]) -> None:
        self._callbacks = dict(callbacks)

    def install(self) -> None:
        """Watches for the modules; calls back at once for those that are imported already."""
        for name in list(self._callbacks):
            module = sys.modules.get(name)
            if module is not None:
                self._callbacks.pop(name)(module)
        if self._callbacks:
            sys.meta_path.insert(0, self)

    def remove(self) -> None:
        """Leaves the import system as it was."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: types.ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        """The spec that the other finders give, with a loader that calls back."""
        if fullname not in self._callbacks:
            return None
        for finder in list(sys.meta_path):
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(fullname, path, target)
            if spec is None:
                continue
            if spec.loader is None or not hasattr(spec.loader, "exec_module"):
                return spec
            spec.loader = _Loader(spec.loader, self._called(fullname))
            return spec
        return None

    def _called(self, fullname: str) -> Callback:
        def call(module: types.ModuleType) -> None:
            callback = self._callbacks.pop(fullname, None)
            if not self._callbacks:
                self.remove()
            if callback is not None:
                callback(module)

        return call
