// SPDX-License-Identifier: MIT
#pragma once

#include <memory>

#include "oort/constraint.h"

namespace oort {

/// What may come depends on all tokens before: those of one residue, which their sum tells.
class TurningConstraint final : public TokenConstraint {
 public:
  /// Done for good behind `most` tokens, if that is not -1; without any that may come, and not
  /// done, behind `stuck`.
  explicit TurningConstraint(int residues, int most = -1, int stuck = -1)
      : residues_(residues), most_(most), stuck_(stuck) {}

  void Mask(std::span<uint32_t> bits) override {
    if (read_ == most_ || read_ == stuck_) return;
    // The bits behind the vocabulary's last count for nobody.
    for (size_t token = 0; token < 32 * bits.size(); ++token) {
      if (Allows(static_cast<int>(token))) bits[token / 32] |= uint32_t{1} << (token % 32);
    }
  }
  bool Accept(int32_t token) override {
    if (read_ == most_ || read_ == stuck_ || !Allows(token)) return false;
    sum_ = (sum_ * 7 + token + 1) % 1009;
    ++read_;
    return true;
  }
  bool done() const override { return most_ < 0 ? stuck_ < 0 && read_ > 3 : read_ == most_; }
  std::unique_ptr<TokenConstraint> Clone() const override {
    return std::make_unique<TurningConstraint>(*this);
  }

 private:
  bool Allows(int token) const { return token % residues_ == sum_ % residues_; }

  int residues_, most_, stuck_;
  int sum_ = 0, read_ = 0;
};

}  // namespace oort
