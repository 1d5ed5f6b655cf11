// SPDX-License-Identifier: MIT
#pragma once

namespace oort::cuda {

class Stream;

/// Keeps the stream busy for so long, so that the host can enqueue what comes behind: what is timed
/// there is the GPU's work alone.
void Hold(const Stream& stream, double seconds);

}  // namespace oort::cuda
