// SPDX-License-Identifier: MIT
// The several residual streams of Gemma 3n (Alternating Updates, Baykal et al. 2023): a layer
// computes with one of them, the others follow it. With them go a second residual of low rank
// (Laurel) and embeddings that tokens have for each layer.
#pragma once

#include <string>

#include "decoder/decoder_parts.h"

namespace oort {

class AltUp {
 public:
  explicit AltUp(DecoderParts& parts) : parts_(parts), config_(parts.config().altup) {}

  /// All streams (tokens, streams, hidden), of embeddings (tokens, hidden).
  int Begin(int tokens, int x);
  /// What a layer's streams would become without it.
  int Predict(const std::string& layer, int streams);
  /// The one that the layer computes with: (tokens, hidden).
  int Active(const std::string& layer, int streams);
  /// (x + laurel(in)) / sqrt(2)
  int AddLaurel(const std::string& layer, int in, int x);
  /// The streams, once the layer has made `made` of the active one.
  int Correct(const std::string& layer, int64_t index, int predicted, int active, int made);
  /// One stream (tokens, hidden) of all of them.
  int Merge(int streams);

 private:
  int Linear(const std::string& name, int x);
  int Select(const std::string& name, int x, int64_t index);
  int Column(const std::string& name, int x, int64_t dim, int64_t index);
  int Coefficients(const std::string& name, const std::string& kind, int x);
  int MeanSquare(const std::string& name, int x);
  int OfSize(const std::string& name, int x, int mean_square);

  DecoderParts& parts_;
  const AltUpConfig& config_;
  int per_layer_ = -1;  ///< (tokens, layers, per_layer)
  int follows_ = -1;    ///< (streams, 1): 0 of the first stream, 1 of the others
};

}  // namespace oort
