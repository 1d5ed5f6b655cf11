// SPDX-License-Identifier: MIT
// Folders of Hugging Face with an encoder of text, perhaps with a head that scores what it read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/activation.h"
#include "parser/checkpoint/tensor_table.h"

namespace oort {

/// What a family calls its tensors; empty where it has no such thing. Those of the head are whole
/// names, the others stand below the body's, which may be left out.
struct TextEncoderNames {
  std::string_view body;
  std::string_view words, positions, types, first_norm;
  std::string_view layers;  ///< then a number, and below it:
  std::string_view query, key, value, joined, output, attention_norm;
  std::string_view up, down, feed_norm;
  std::string_view final_norm, relative;
  std::string_view head_dense, head_norm, head;
};

struct TextEncoderConfig {
  std::string family;
  TextEncoderNames names;
  int64_t vocabulary = 0, hidden = 0, layers = 0, heads = 0, intermediate = 0;
  Activation activation = Activation::kGelu;
  float epsilon = 1e-12F;
  bool norms_first = false;  ///< before each half, and none before the first; else behind each sum
  bool gated = false;        ///< the feed-forward is act(first half of up) * second half
  int64_t positions = 0;     ///< learned ones; 0: there are none
  int64_t first_position = 0;
  int64_t types = 0;    ///< of tokens; 0: there are none
  int64_t context = 0;  ///< tokens of a text at most
  /// Distances fall into so many buckets, each with a bias for each head; 0: there are none.
  int64_t buckets = 0, max_distance = 0;
  double rotary_base = 0, local_rotary_base = 0;  ///< 0: positions do not turn
  int64_t window = 0;       ///< of local layers: keys up to so far away are seen
  std::vector<bool> local;  ///< which layers those are; empty: none
  Activation head_activation = Activation::kTanh;
  bool head_of_mean = false;  ///< the head reads the mean of all tokens, else the first one
  bool raw_scores = false;    ///< what the head says is the score, else its sigmoid

  int64_t head_dim() const { return hidden / heads; }
  bool IsLocal(int64_t layer) const {
    const auto index = static_cast<size_t>(layer);
    return index < local.size() && local[index];
  }
};

struct TextEncoderFiles {
  TextEncoderConfig config;
  TensorTable tensors;  ///< under the names of the file
};

/// "bert, camembert, … and xlm-roberta", for messages.
std::string TextEncoderFamilies();
/// Whether a folder's config.json names such a family.
bool IsTextEncoder(const std::filesystem::path& folder);
/// Whether config.json says that a head scores texts (…ForSequenceClassification).
bool HasScoringHead(const std::filesystem::path& folder);
/// Throws as Checkpoint::Open does.
TextEncoderFiles ReadTextEncoder(const std::filesystem::path& folder);

}  // namespace oort
