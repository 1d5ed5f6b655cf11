// SPDX-License-Identifier: MIT
// What stands for token_drawer.cu in a build without CUDA: there are no streams to draw in.
#include "llm/sampling/token_drawer.h"
#include "oort/error.h"

namespace oort::cuda {

std::unique_ptr<TokenDrawer> MakeCudaTokenDrawer(Stream&) {
  throw Error(ErrorCode::kUnsupported, "this build has no CUDA");
}

}  // namespace oort::cuda
