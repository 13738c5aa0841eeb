"""Waits for frameworks: a meta-path finder that runs a set-up step right after a watched module was executed.

It finds nothing itself. It asks the other finders and hangs a step onto the loader they give: onto the instance,
so that its type, its ``get_source``, resource readers and everything else stay what they are. Before the module's own
code runs the step is taken off again: the module never sees it.
"""

from __future__ import annotations

import sys

from .observer import absolute
from .process import LOADERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType
    from typing import Any

    from .process import Process

WATCHED = {
    "random": "standard.seed_random",
    "subprocess": "starts.number_programs",
    "tempfile": "standard.name_temporaries",
    "multiprocessing.process": "standard.number_workers",
    "multiprocessing.pool": "for_pools.set_up_pool",
    "multiprocess.process": "for_multiprocess.set_up_process",
    "multiprocess.pool": "for_multiprocess.set_up_pool",
    "multiprocess.queues": "for_multiprocess.set_up_queues",
    "multiprocess.synchronize": "for_multiprocess.set_up_synchronize",
    "multiprocess.connection": "for_multiprocess.set_up_connection",
    "concurrent.futures.process": "for_pools.set_up_executor",
    "numpy": "for_numpy.read_libraries",
    "numpy.random": "for_numpy.set_up",
    "sqlite3": "for_sqlite3.set_up",
    "numba": "for_numba.set_up",
    "polars": "for_polars.set_up",
    "lightgbm": "for_lightgbm.set_up",
    "tensorflow": "for_tensorflow.set_up",
    "keras": "for_keras.set_up",
    "torch": "for_torch.set_up",
    "jax": "for_jax.set_up",
}
"""Module to the function, below ``frameworks``, that sets it up: called with the module and the process."""
PARSERS = {
    "argparse": "for_argparse.set_up",
    "absl.flags._flagvalues": "for_absl.set_up",
    "click.core": "for_click.set_up",
    "typer._click.core": "for_click.set_up",
    "hydra._internal.config_loader_impl": "for_hydra.set_up",
    "omegaconf.omegaconf": "for_omegaconf.set_up",
    "fire.core": "for_fire.set_up",
    "tyro._calling": "for_tyro.set_up",
    "jsonargparse._core": "for_jsonargparse.set_up",
    "jsonargparse.core": "for_jsonargparse.set_up",
}
"""The same for libraries that parse arguments: what they gave the program is recorded, nothing is set."""
TASKS = {
    "concurrent.futures.interpreter": "for_pools.set_up_interpreters",
    "mpi4py.futures.pool": "for_pools.set_up_mpi",
    "joblib.parallel": "for_pools.set_up_joblib",
    "joblib._dask": "for_dask.set_up_joblib",
    "ray._private.function_manager": "for_ray.set_up_functions",
    "ray._private.worker": "for_ray.set_up_wait",
    "ray.actor": "for_ray.set_up_actors",
    "dask.tokenize": "for_dask.set_up_tokens",
    "dask.delayed": "for_dask.set_up_names",
    "dask.base": "for_dask.set_up_tokens",
    "dask._expr": "for_dask.set_up_names",
    "dask.graph_manipulation": "for_dask.set_up_names",
    "dask.array.core": "for_dask.set_up_names",
    "dask.bag.core": "for_dask.set_up_names",
    "dask.local": "for_dask.set_up_local",
    "distributed.client": "for_dask.set_up_client",
    "distributed.worker": "for_dask.set_up_worker",
    "distributed.threadpoolexecutor": "for_dask.set_up_threads",
    "dask.sizeof": "for_dask.set_up_chance",
    "distributed.scheduler": "for_dask.set_up_chance",
    "distributed.utils_comm": "for_dask.set_up_chance",
    "distributed.comm.core": "for_dask.set_up_chance",
    "distributed.protocol.compression": "for_dask.set_up_chance",
    "distributed.deploy.local": "for_dask.set_up_cluster",
    "torch.utils.data.dataloader": "for_loaders.set_up",
}
"""The same for libraries that hand tasks to workers by what is no interface of theirs: where a version of one has it
otherwise, its tasks have no numbers of their own, which is warned of, and the program goes on."""
REPLICAS = {
    "tensorflow.python.distribute.distribute_lib": "for_replicas.set_up_tensorflow",
    "keras.src.backend.tensorflow.trainer": "for_replicas.set_up_keras",
    "keras.engine.data_adapter": "for_replicas.set_up_keras_2",
    "keras.src.engine.data_adapter": "for_replicas.set_up_keras_2",
    "tf_keras.src.engine.data_adapter": "for_replicas.set_up_keras_2",
    "torch.utils.data.distributed": "for_replicas.set_up_sampler",
    "torch.nn.parallel.data_parallel": "for_replicas.set_up_data_parallel",
}
"""The same for what cuts batches for several replicas: an uneven cut is warned of."""
MENDED = {
    "torch.distributed.distributed_c10d": "for_process_groups.set_up",
    "tensorflow.python.util.object_identity": "for_object_sets.set_up",
    "tensorflow.python.keras.utils.object_identity": "for_object_sets.set_up",
}
"""The same for what may hang where it is used as its documentation has it, and for sets that follow addresses."""
PARALLEL = {
    "torch.nn.parallel.distributed": "for_buckets.set_up",
    "tensorflow.python.distribute.collective_all_reduce_strategy": "for_collectives.set_up_mirrored",
    "tensorflow.python.distribute.parameter_server_strategy_v2": "for_collectives.set_up_parameter_servers",
    "jax._src.distributed": "for_collectives.set_up_jax",
    "horovod": "for_collectives.set_up_horovod",
    "deepspeed.runtime.engine": "for_collectives.set_up_deepspeed",
}
"""The same for what adds values up over ranks: how it does is recorded, nothing is set."""
SHOWN = {"matplotlib.backend_bases": "for_matplotlib.set_up"}
"""The same for what would go to a screen: it is kept, nothing is set."""
TURNS = {"threading": "for_threads.set_up", "multiprocessing.process": "for_threads.set_up_processes"}
"""The same for what begins threads and processes, in runs that vary which of them comes first."""
METRICS = {"keras": "metrics_keras.set_up", "tf_keras": "metrics_keras.set_up"}
"""The same for libraries that know a training's metrics."""
TRACED = {"keras": "trace_keras.set_up", "tf_keras": "trace_keras.set_up", "torch": "trace_torch.set_up"}
"""The same for runs that asked for a step trace; after the switches are set."""
FILLED = {"numpy": "for_numpy.fill"}
"""The same for experiments with memory that is filled."""


_FILES = (".py", ".pyc", ".so")


def install(process: Process, *tables: dict[str, str]) -> None:
    """Start watching for the modules of some tables, and set up what some start-up file has imported already."""
    watched = {name: [table for table in tables if name in table] for table in tables for name in table}

    def after(name: str, module: Any) -> None:
        for table in watched[name]:
            set_up(name, module, process, table)

    sys.meta_path.insert(0, Finder(after, watched))
    for name in watched:
        if name in sys.modules:
            after(name, sys.modules[name])


def set_up(name: str, module: Any, process: Process, table: dict[str, str]) -> None:
    """Run a table's step for one module; what goes wrong in it never reaches the program."""

    def step() -> None:
        if _merely_named(name, module, process):
            return
        adapter, _, function = table[name].partition(".")
        package = __name__.rpartition(".")[0] + ".frameworks"
        imported = __import__(f"{package}.{adapter}", fromlist=[function])
        getattr(imported, function)(module, process)

    process.guarded(name, step, vital=table is WATCHED)
    if table is WATCHED and name in LOADERS:
        process.check_libraries()


def _merely_named(name: str, module: Any, process: Process) -> bool:
    """Whether a module only has a watched name: the project's own ``random.py``, an object that has no file.

    A library that is developed in the project's folder has its version, as it has anywhere. It may come late: while
    the package is imported, its modules are taken for what they are named.
    """
    file = getattr(module, "__file__", None)
    if not isinstance(file, str) or not file.endswith(_FILES):
        return True
    if not process.observer.within(absolute(file)):
        return False
    package = name.partition(".")[0]
    if package in getattr(sys, "stdlib_module_names", ()):
        return True
    whole = sys.modules.get(package)
    if name != package and getattr(getattr(whole, "__spec__", None), "_initializing", None) is True:
        return False
    return not hasattr(whole, "__version__")


class Finder:
    """The meta-path entry; ``after`` is called with the name and the module once its code has run."""

    def __init__(self, after: Callable[[str, ModuleType], None], watched: Any = None) -> None:
        self.after = after
        self.watched = WATCHED if watched is None else watched

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: Any = None) -> Any:
        """Give what the other finders find for a watched module, with the step hung onto its loader."""
        if name not in self.watched:
            return None
        for finder in list(sys.meta_path):
            find = None if isinstance(finder, Finder) else getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find else None
            if spec is not None:
                self._hang(spec)
                return spec
        return None

    def _hang(self, spec: Any) -> None:
        loader = spec.loader
        if not hasattr(loader, "exec_module"):
            return
        if _is_own(loader):
            loader.exec_module = _Step(loader, spec.name, self.after)
        else:
            spec.loader = _Proxy(loader, self.after)


def _is_own(loader: Any) -> bool:
    """Return whether a loader serves one module only: those of files do, those of archives are shared."""
    return any(base.__name__ == "FileLoader" for base in type(loader).__mro__) and hasattr(loader, "__dict__")


class _Step:
    """Replaces ``exec_module`` of one loader instance for one execution."""

    def __init__(self, loader: Any, name: str, after: Callable[[str, ModuleType], None]) -> None:
        self.loader, self.name, self.after = loader, name, after

    def __call__(self, module: ModuleType) -> None:
        """Take this step off, execute the module as ever, then set it up."""
        self.loader.__dict__.pop("exec_module", None)
        self.loader.exec_module(module)
        self.after(self.name, sys.modules.get(self.name, module))


class _Proxy:
    """Stands before a shared loader until the module is executed."""

    def __init__(self, loader: Any, after: Callable[[str, ModuleType], None]) -> None:
        self._loader, self._after = loader, after

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: Any) -> Any:
        """Create the module as the loader does."""
        create = getattr(self._loader, "create_module", None)
        return create(spec) if create else None

    def exec_module(self, module: Any) -> None:
        """Give the module its real loader back, execute it, then set it up."""
        module.__loader__ = module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._after(module.__spec__.name, sys.modules.get(module.__spec__.name, module))
