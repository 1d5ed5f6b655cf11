# SPDX-License-Identifier: MIT
"""What other array libraries need besides DLPack."""
import sys


def wait_for_producer(array) -> None:
    """Waits until the elements of an array on a GPU are there: who makes them may have only queued that."""
    library = type(array).__module__.partition(".")[0]
    if library == "torch":
        sys.modules["torch"].cuda.current_stream(array.device).synchronize()
    elif library == "cupy":
        sys.modules["cupy"].cuda.get_current_stream().synchronize()
    elif hasattr(array, "block_until_ready"):
        array.block_until_ready()
