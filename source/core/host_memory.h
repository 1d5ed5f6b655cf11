// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "oort/tensor.h"

namespace oort {

/// How long pages are needed, and with which others: those of one use share large pages.
enum class PageUse {
  kKept,     ///< with others like it: weights
  kPassing,  ///< until something else was made of it; wants TrimPages before it is filled
  kAlone,    ///< large pages only as far as they are filled
};

/// Host memory for what lives long, such as weights: large blocks are whole pages that go back to
/// the system the moment they are let go of, where AllocateHost may keep them for the next caller.
std::shared_ptr<Buffer> AllocatePages(size_t bytes, PageUse use = PageUse::kKept);

/// Gives back what is left over of large pages that no more blocks will fill soon.
void TrimPages();

/// Bytes of buffers that this thread has allocated, less those that it has freed: what a function
/// leaves behind is the difference.
int64_t ThreadHostBytes();

/// Gives free memory back to the system, where the allocator keeps much of it.
void TrimHostMemory();

/// For the buffers themselves.
void CountHostBytes(int64_t change);

}  // namespace oort
