// SPDX-License-Identifier: MIT
// A decoder cut between its matrices, for who wants to see what each of them multiplies, and to go
// on with other matrices than the checkpoint's: one layer of the model is in memory at a time.
#pragma once

#include "oort/graph.h"
#include "parser/checkpoint/checkpoint.h"

namespace oort {

/// In the order in which a token goes through them; all but the first and the last come once for
/// each layer. Activations are f32 rows, a row for each token. Positions are i32.
enum class DecoderStage : unsigned char {
  kEmbed,          ///< tokens, and positions where the model learned them -> x
  kAttentionNorm,  ///< x -> what q, k and v multiply
  /// That, and positions where they turn queries -> what o multiplies. It runs with a
  /// SequenceBatch over a cache of one layer.
  kAttention,
  kAttentionOutput,  ///< that and x -> the new x, and what gate and up multiply
  kHidden,           ///< that -> what down multiplies
  kOutput,           ///< that and x -> the new x
  kFinalNorm,        ///< x -> what the head multiplies
};

Graph BuildStage(const Checkpoint& checkpoint, DecoderStage stage, int64_t layer);

}  // namespace oort
