# SPDX-License-Identifier: MIT
"""What other array libraries need besides DLPack."""
import sys
from typing import Any, Sequence


def library_of(array: Any) -> str:
    """The library that its class is of, or the nearest of that class's bases which is of one that is known here:
    programs make classes of their own."""
    found = [base.__module__.partition(".")[0] for base in type(array).__mro__]
    return next((name for name in found if name in ("torch", "cupy", "jax", "jaxlib", "numpy")), found[0])


def wait_for_producer(array: Any) -> None:
    """Waits until the elements of an array on a GPU are there: who makes them may have only queued that."""
    library = library_of(array)
    if library == "torch":
        sys.modules["torch"].cuda.current_stream(array.device).synchronize()
    elif library == "cupy":
        sys.modules["cupy"].cuda.get_current_stream().synchronize()
    elif hasattr(array, "block_until_ready"):
        array.block_until_ready()


def empty_beside(like: Any, shape: Sequence[int], dtype: str) -> Any:
    """An array for a result, made by the library of `like` where that one lies: memory of its own allocator, which
    knows what its streams still do with it. None where the library has no such dtype."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(like, torch.Tensor):
        return torch.empty(tuple(shape), dtype=getattr(torch, dtype), device=like.device)
    if dtype in ("bfloat16", "complex32"):
        return None
    return sys.modules[library_of(like)].empty(tuple(shape), dtype)


def moved_beside(like: Any, array: Any) -> Any:
    """A result in host memory, of torch and jax for theirs and of numpy else, as an array where `like` lies."""
    torch, jax = sys.modules.get("torch"), sys.modules.get("jax")
    if torch is not None and isinstance(like, torch.Tensor):
        return array.to(like.device)
    if jax is not None and isinstance(like, jax.Array):
        return jax.device_put(array, like.device)
    return sys.modules[library_of(like)].asarray(array)
