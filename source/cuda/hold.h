// SPDX-License-Identifier: MIT
#pragma once

namespace oort::cuda {

class Stream;

/// Keeps the stream busy for so long that the host can enqueue the work behind it. So what is timed
/// there is the work of the GPU alone.
void Hold(const Stream& stream, double seconds);

}  // namespace oort::cuda
