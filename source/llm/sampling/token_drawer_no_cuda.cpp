// SPDX-License-Identifier: MIT
// What stands for token_drawer.cu in a build without CUDA: its stream cannot be made.
#include "llm/sampling/token_drawer.h"

namespace oort::cuda {

TokenDrawer::TokenDrawer(int device) : stream_(device) {}
std::span<const int32_t> TokenDrawer::Draw(const Tensor&, std::span<const TokenDraw>) { return {}; }

}  // namespace oort::cuda
