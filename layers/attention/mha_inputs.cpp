// SPDX-License-Identifier: MIT
#include "layers/attention/mha_inputs.h"

#include <algorithm>

#include "core/scratch_vector.h"

namespace oort {
namespace {

class Matcher {
 public:
  Matcher(std::span<const Value* const> inputs, const std::vector<std::string>& names,
          bool batch_first)
      : inputs_(inputs), names_(names), batch_first_(batch_first) {}

  MhaInputs Match() {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (At(static_cast<int>(i)).dtype() == DType::kBool) masks_.push_back(static_cast<int>(i));
    }
    bool_masks_ = masks_.size();
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const int input = static_cast<int>(i);
      if (At(input).dtype() == DType::kBool) continue;
      (IsNumberMask(input) ? masks_ : data_).push_back(input);
    }
    if (data_.empty() || data_.size() > 3 || masks_.size() > 2) Fail();
    result_.query = data_[0];
    result_.key = data_.size() > 1 ? data_[1] : data_[0];
    result_.value = data_.back();
    CheckRanks();
    AssignMasks();
    return result_;
  }

 private:
  const Tensor& At(int input) const { return inputs_[static_cast<size_t>(input)]->AsTensor(); }

  [[noreturn]] void Fail() const {
    std::string text;
    for (const Value* input : inputs_) text += " " + input->AsTensor().ToString();
    throw Error(ErrorCode::kInvalidArgument,
                "expected query, key and value of rank 2 or 3 and masks that fit them, got" + text);
  }

  /// The first input that is no bool is the query; a mask of numbers comes behind it.
  bool IsNumberMask(int input) const {
    if (data_.empty()) return false;
    const int rank = At(input).rank(), query_rank = At(data_[0]).rank();
    if (rank < query_rank || rank > 3) return true;
    // Of the same rank as the query the name decides, which is right where no bool mask is.
    const bool named = static_cast<size_t>(input) < names_.size() &&
                       names_[static_cast<size_t>(input)] == "attn_mask";
    return rank > query_rank || (named && bool_masks_ == 0);
  }

  void CheckRanks() const {
    const int rank = At(result_.query).rank();
    if (rank != 2 && rank != 3) Fail();
    if (At(result_.key).rank() != rank || At(result_.value).rank() != rank) Fail();
  }

  bool Batched() const { return At(result_.query).rank() == 3; }
  int64_t Batch() const { return Batched() ? At(result_.query).dim(batch_first_ ? 0 : 1) : 1; }
  int64_t Length(int input) const { return At(input).dim(Batched() && batch_first_ ? 1 : 0); }

  bool FitsAttention(int mask) const {
    const Shape& shape = At(mask).shape();
    if (shape.rank() == 3) return true;
    return shape == Shape{Length(result_.query), Length(result_.key)};
  }
  bool FitsPadding(int mask) const {
    const int64_t keys = Length(result_.key);
    const Shape& shape = At(mask).shape();
    return Batched() ? shape == Shape{Batch(), keys} : shape == Shape{keys};
  }

  void AssignMasks() {
    if (masks_.empty()) return;
    if (masks_.size() == 1) {
      if (FitsAttention(masks_[0])) {
        result_.attention_mask = masks_[0];
      } else if (FitsPadding(masks_[0])) {
        result_.padding_mask = masks_[0];
      } else {
        Fail();
      }
      return;
    }
    // Where the shapes leave it open: bool masks come in torch's order of use, padding first;
    // others in the order of the arguments.
    int attention = masks_[bool_masks_ == 2 ? 1 : 0], padding = masks_[bool_masks_ == 2 ? 0 : 1];
    if (!FitsAttention(attention) || !FitsPadding(padding)) std::swap(attention, padding);
    if (!FitsAttention(attention) || !FitsPadding(padding)) Fail();
    result_.attention_mask = attention;
    result_.padding_mask = padding;
  }

  std::span<const Value* const> inputs_;
  const std::vector<std::string>& names_;
  bool batch_first_;
  ScratchVector<int> data_, masks_;
  size_t bool_masks_ = 0;
  MhaInputs result_;
};

}  // namespace

MhaInputs MatchMhaInputs(std::span<const Value* const> inputs,
                         const std::vector<std::string>& names, bool batch_first, int64_t rank) {
  for (const Value* input : inputs) {
    if (input->IsTensor()) continue;
    throw Error(ErrorCode::kInvalidArgument, "expected tensors, got " + input->KindName());
  }
  const MhaInputs match = Matcher(inputs, names, batch_first).Match();
  const Tensor& query = inputs[static_cast<size_t>(match.query)]->AsTensor();
  if (rank != 0 && query.rank() != rank) {
    throw Error(ErrorCode::kInvalidArgument,
                "expected an input of rank " + std::to_string(rank) + ", got " + query.ToString());
  }
  return match;
}

}  // namespace oort
