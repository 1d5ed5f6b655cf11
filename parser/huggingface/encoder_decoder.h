// SPDX-License-Identifier: MIT
// Folders of encoder-decoders: T5 and BART.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/activation.h"
#include "parser/checkpoint/tensor_table.h"

namespace oort {

/// What the files of a family call the tensors of a layer; empty where it has no such thing.
struct EncoderDecoderNames {
  std::string_view shared, encoder, decoder, layers;
  std::string_view self_attention, cross_attention, query, key, value, output;
  std::string_view self_norm, cross_norm, encoder_feed, decoder_feed, feed_norm;
  std::string_view up, gate, gated_up, down;
  std::string_view first_norm, final_norm, positions, relative;
};

struct EncoderDecoderConfig {
  std::string family;
  EncoderDecoderNames names;
  int64_t vocabulary = 0, hidden = 0, heads = 0, head_dim = 0;
  int64_t encoder_layers = 0, decoder_layers = 0;
  int64_t encoder_intermediate = 0, decoder_intermediate = 0;
  bool rms_norms = false;   ///< else LayerNorm with a bias
  bool post_norms = false;  ///< norms behind each sum, else before each half
  bool gated = false;
  Activation activation = Activation::kRelu;
  float epsilon = 1e-6F;
  float attention_scale = 1, embedding_scale = 1, logit_scale = 1;
  /// Learned positions, of which the first two are not used; 0: there are none.
  int64_t positions = 0;
  /// Distances fall into so many buckets, each with a bias for each head; 0: there are none.
  int64_t buckets = 0, max_distance = 0;
  int32_t start_token = 0;              ///< that the decoder begins with
  std::optional<int32_t> forced_first;  ///< that every answer begins with
  std::vector<int32_t> end_tokens;

  static constexpr int64_t kPositionOffset = 2;
  static constexpr int64_t kMostTokens = 2048;
  /// Tokens of a text, or of an answer, at most.
  int64_t most_tokens() const { return positions > 0 ? positions : kMostTokens; }
};

struct EncoderDecoderFiles {
  EncoderDecoderConfig config;
  TensorTable tensors;  ///< under the names of the file
  size_t bytes = 0;     ///< of the files of weights
};

/// Whether a folder's config.json names such a family.
bool IsEncoderDecoder(const std::filesystem::path& folder);
/// Throws as Checkpoint::Open does.
EncoderDecoderFiles ReadEncoderDecoder(const std::filesystem::path& folder);

}  // namespace oort
