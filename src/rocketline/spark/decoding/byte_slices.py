"""Arrow arrays cut out of one buffer of bytes, without a Python object for each value.

Values that lie in a buffer in ascending order, with other bytes in between, are half of an Arrow array that is there
already: every second one of the array whose offsets are all beginnings and ends. Taking these copies each value once,
in C++, whatever its length.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rocketline.spark.decoding.record_spans import Ints

_NOWHERE: Final = -1


def cut(
    buffer: pa.Buffer, starts: Ints, ends: Ints, kind: pa.DataType | None = None, places: Ints | None = None
) -> pa.Array:
    """The values `buffer[start:end]`, binary or of `kind`. Each must begin where the one before it ends, or later.

    With `places`: the values of these numbers, in this order; -1 is null.

    >>> cut(pa.py_buffer(b"-ab--c"), np.array([1, 5]), np.array([3, 6])).to_pylist()
    [b'ab', b'c']
    >>> cut(pa.py_buffer(b"-ab--c"), np.array([1, 5]), np.array([3, 6]), pa.string(), np.array([1, -1])).to_pylist()
    ['c', None]
    """
    count = len(starts)
    bounds: npt.NDArray[np.int32] = np.empty(2 * count + 1, np.int32)
    bounds[0 : 2 * count : 2] = starts
    bounds[1 : 2 * count : 2] = ends
    bounds[2 * count] = ends[-1] if count else 0
    every_second = pa.Array.from_buffers(kind or pa.binary(), 2 * count, [None, pa.py_buffer(bounds), buffer])
    if places is None:
        return every_second.take(pa.array(np.arange(0, 2 * count, 2)))
    return every_second.take(pa.array(2 * places, mask=places == _NOWHERE))


def repeated(value: str, count: int) -> pa.Array:
    """`count` times the same text.

    >>> repeated("ab", 2).to_pylist()
    ['ab', 'ab']
    """
    data = value.encode()
    offsets = (np.arange(count + 1) * len(data)).astype(np.int32)
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data * count)])
