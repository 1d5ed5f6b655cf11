// SPDX-License-Identifier: MIT
#include "decoder/lora_add.h"

#include <algorithm>

#include "oort/error.h"

namespace oort {

Written LoraAddOf(std::span<const LoraAdapter> adapters, const std::string& weight,
                  const StoredMatrix& matrix) {
  Value::List ranks;
  int64_t rank = 0;
  for (const LoraAdapter& adapter : adapters) {
    const auto found = adapter.weights.find(weight);
    const bool has = found != adapter.weights.end();
    if (has &&
        (found->second.down.dim(1) != matrix.columns || found->second.up.dim(0) != matrix.rows)) {
      throw Error(
          ErrorCode::kInvalidModel,
          "an adapter is for another model: it adds (" + std::to_string(found->second.up.dim(0)) +
              "," + std::to_string(found->second.down.dim(1)) + ") to " + weight + ", which is (" +
              std::to_string(matrix.rows) + "," + std::to_string(matrix.columns) + ")");
    }
    ranks.emplace_back(has ? found->second.down.dim(0) : int64_t{0});
    rank += ranks.back().AsInt();
  }
  Tensor down(DType::kF32, Shape{rank, matrix.columns}), up(DType::kF32, Shape{rank, matrix.rows});
  int64_t first = 0;
  for (const LoraAdapter& adapter : adapters) {
    const auto found = adapter.weights.find(weight);
    if (found == adapter.weights.end()) continue;
    const auto& [given_down, given_up] = found->second;
    const int64_t count = given_down.dim(0);
    std::ranges::copy(given_down.span<float>(), down.data<float>() + first * matrix.columns);
    for (int64_t row = 0; row < matrix.rows; ++row) {
      for (int64_t r = 0; r < count; ++r) {
        up.data<float>()[(first + r) * matrix.rows + row] = given_up.data<float>()[row * count + r];
      }
    }
    first += count;
  }
  Written add{"oort.LoraAdd", weight + ".lora"};
  add.Set("ranks", Value(ranks)).Attach("down", down).Attach("up", up);
  return add;
}

}  // namespace oort
