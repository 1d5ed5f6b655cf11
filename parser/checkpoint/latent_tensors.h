// SPDX-License-Identifier: MIT
// Tensors of latent attention, cut as the decoder wants them.
#pragma once

#include <string>
#include <string_view>

#include "parser/checkpoint/tensor_table.h"

namespace oort {

/// Adds what a file's tensor holds, below `prefix` ("model.layers.0.self_attn."): "q_proj" or
/// "q_b_proj" (of each head what stays, then what turns), "kv_a_proj_with_mqa" (the latent, then
/// what turns), "kv_b_proj" (of each head the key's rows, then the value's). False for other names,
/// and for shapes that do not fit.
bool AddLatentTensor(const DecoderConfig& config, const std::string& prefix, std::string_view name,
                     const std::string& ending, const PlacedTensor& placed, TensorTable& table);

}  // namespace oort
