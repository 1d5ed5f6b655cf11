// SPDX-License-Identifier: MIT
#include "parser/checkpoint/latent_tensors.h"

#include "parser/checkpoint/row_parts.h"

namespace oort {

bool AddLatentTensor(const DecoderConfig& config, const std::string& prefix, std::string_view name,
                     const std::string& ending, const PlacedTensor& placed, TensorTable& table) {
  const LatentConfig& latent = config.latent;
  const int64_t units = placed.units();
  if (name == "q_proj" || name == "q_b_proj") {
    const int64_t head = latent.plain + latent.turned;
    const bool has_rank = latent.query_rank > 0;
    if (placed.rank != 2 || units != config.heads * head || has_rank != (name == "q_b_proj")) {
      return false;
    }
    table.Add(prefix + "q_plain_proj" + ending, EveryRun(placed, 0, latent.plain, head));
    table.Add(prefix + "q_turned_proj" + ending,
              EveryRun(placed, latent.plain, latent.turned, head));
    return true;
  }
  if (name == "kv_a_proj_with_mqa") {
    if (units != latent.rank + latent.turned) return false;
    table.Add(prefix + "kv_a_proj" + ending, placed.Cut(0, latent.rank));
    table.Add(prefix + "k_turned_proj" + ending, placed.Cut(latent.rank, latent.turned));
    return true;
  }
  if (name != "kv_b_proj") return false;
  const int64_t head = latent.plain + latent.value;
  if (placed.rank != 2 || units != config.heads * head || placed.columns != latent.rank)
    return false;
  const PlacedTensor keys = EveryRun(placed, 0, latent.plain, head);
  table.Add(prefix + "k_b_proj" + ending, TurnedParts(keys, latent.plain));
  table.Add(prefix + "v_b_proj" + ending, EveryRun(placed, latent.plain, latent.value, head));
  return true;
}

}  // namespace oort
