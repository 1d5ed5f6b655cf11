// SPDX-License-Identifier: MIT
// How far what a network with bytes answers is from what the float one does.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "oort/session.h"
#include "quantize/calibrate.h"

namespace oort::quantize {

/// Sums over pairs of exact and rough values. Thread contract: none.
class ErrorMeter {
 public:
  void Add(std::span<const float> exact, std::span<const float> rough);
  /// Float tensors of the same shape; others are left out.
  void Add(const Tensor& exact, const Tensor& rough);

  bool empty() const { return count_ == 0; }
  /// Signal over noise in dB, at most 200: so much where both are the same.
  double Sqnr() const;
  double Cosine() const;
  double Max() const { return max_; }

 private:
  uint64_t count_ = 0;
  double signal_ = 0, noise_ = 0, product_ = 0, rough_ = 0, max_ = 0;
};

/// How often two networks name the same class, and, with labels, the right one.
struct Agreement {
  uint64_t rows = 0, same = 0;
  uint64_t labelled = 0, float_right = 0, right = 0;

  double share() const {
    return rows == 0 ? 1 : static_cast<double>(same) / static_cast<double>(rows);
  }
  /// What was lost, as a share: of the labelled answers, or else of those that changed.
  double Drop() const;
};

struct Evaluation {
  ErrorMeter error;  ///< of all outputs
  Agreement agreement;
};

/// Runs both over the samples of these numbers. `labels` has the class of every sample by number;
/// empty for none.
Evaluation Evaluate(Session& exact, Session& rough, const Samples& samples,
                    const std::vector<size_t>& numbers, const std::vector<int64_t>& labels,
                    std::string_view phase, const Watcher& watcher);

/// Samples with the float network's answers, for who compares many networks with it.
class KeptAnswers {
 public:
  KeptAnswers(Session& exact, const Samples& samples, const std::vector<size_t>& numbers,
              const Watcher& watcher);
  /// The error of all outputs of another network.
  ErrorMeter Compare(Session& rough) const;

 private:
  struct Kept {
    std::vector<Tensor> inputs, outputs;
  };
  std::vector<Kept> kept_;
};

}  // namespace oort::quantize
