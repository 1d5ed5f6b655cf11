// SPDX-License-Identifier: MIT
#include "llm/sampling/token_drawer.h"

#include <algorithm>
#include <mutex>
#include <string>

#include "oort/error.h"

namespace oort::cuda {
namespace {

std::mutex drawer_mutex;
TokenDrawerOverride::Maker drawer_override;

}  // namespace

void TokenDrawer::Check(size_t turn, const Tensor& logits, std::span<const TokenDraw> draws) {
  constexpr int64_t kMostLogits = INT32_MAX - (1 << 16);
  const int64_t count = logits.dim(logits.rank() - 1);
  const int64_t rows = count < 1 ? 0 : logits.elements() / count;
  const auto fits = [&](const TokenDraw& draw) {
    const auto known = [&](const LogitChange& change) {
      return change.token >= 0 && change.token < count;
    };
    return draw.row >= 0 && draw.row < rows && draw.reported <= kMostReported &&
           (draw.allowed.empty() || std::ssize(draw.allowed) * 32 >= count) &&
           std::ranges::all_of(draw.changes, known);
  };
  if (turn < kTurns && count <= kMostLogits && draws.size() <= static_cast<size_t>(INT32_MAX) &&
      std::ranges::all_of(draws, fits)) {
    return;
  }
  throw Error(ErrorCode::kInvalidArgument,
              std::to_string(draws.size()) + " draws do not fit logits " + logits.ToString());
}

std::unique_ptr<TokenDrawer> MakeTokenDrawer(Stream* stream) {
  {
    const std::lock_guard lock(drawer_mutex);
    if (drawer_override) return drawer_override();
  }
  return stream == nullptr ? nullptr : MakeCudaTokenDrawer(*stream);
}

TokenDrawerOverride::TokenDrawerOverride(Maker make) {
  const std::lock_guard lock(drawer_mutex);
  drawer_override = std::move(make);
}

TokenDrawerOverride::~TokenDrawerOverride() {
  const std::lock_guard lock(drawer_mutex);
  drawer_override = nullptr;
}

bool TokenDrawerOverride::active() {
  const std::lock_guard lock(drawer_mutex);
  return drawer_override != nullptr;
}

}  // namespace oort::cuda
