// SPDX-License-Identifier: MIT
// What oort.PagedAttention says of itself, for the layers of all devices.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "core/checked.h"
#include "layers/rotary/head_turner.h"
#include "oort/kv_cache.h"
#include "oort/layer.h"
#include "oort/tensor.h"

namespace oort {

/// Causal attention of new tokens over all tokens of their sequences.
class PagedAttentionBase : public Layer {
 public:
  explicit PagedAttentionBase(const LayerInit& init)
      : query_(init.Arg("query")),
        key_(init.Arg("key")),
        value_(init.Arg("value")),
        angles_(init.Arg("angles")),
        interleaved_(init.Bool("interleaved")),
        layer_(init.Int("layer")),
        heads_(init.Int("heads")),
        kv_heads_(init.Int("kv_heads")),
        head_dim_(init.Int("head_dim")),
        first_query_(init.Int("first_query")),
        window_(init.Int("window")),
        chunked_(init.Bool("chunked")),
        scale_(static_cast<float>(init.Float("scale"))),
        softcap_(static_cast<float>(init.Float("softcap"))),
        sinks_(init.Weight("sinks")),
        bias_(init.Weight("distance_bias")),
        key_centre_(init.Weight("key_centre")) {
    SetGroups(init.Int("group"));
    CheckedMultiply(std::max(heads_, kv_heads_), head_dim_);
    if (sinks_.defined() && sinks_.shape() != Shape{heads_}) {
      throw Error(ErrorCode::kInvalidModel, "expected a sink for each of " +
                                                std::to_string(heads_) + " heads, got " +
                                                sinks_.ToString());
    }
    if (key_centre_.defined() &&
        (key_centre_.shape() != Shape{kv_heads_ * head_dim_} || sinks_.defined() || softcap_ > 0)) {
      throw Error(ErrorCode::kInvalidModel, "expected a centre of " + std::to_string(kv_heads_) +
                                                " heads of keys of " + std::to_string(head_dim_) +
                                                " elements, and neither sinks nor a soft cap, "
                                                "got " +
                                                key_centre_.ToString());
    }
    if (bias_.defined() &&
        (bias_.rank() != 2 || bias_.dim(0) != heads_ || bias_.dim(1) < 1 || softcap_ > 0)) {
      throw Error(ErrorCode::kInvalidModel,
                  "expected a bias for each of " + std::to_string(heads_) +
                      " heads and each distance, and no soft cap, got " + bias_.ToString());
    }
  }

  std::vector<Value> Infer(const Args& args) const override {
    const Shape& query = args.shape(query_);
    const Shape expected{query.rank() > 0 ? query[0] : 0, heads_ * head_dim_};
    const Shape kv{expected[0], kv_heads_ * head_dim_};
    ExpectShape(query, expected, "queries");
    ExpectShape(args.shape(key_), kv, "keys");
    ExpectShape(args.shape(value_), kv, "values");
    if (args.Has(angles_)) {
      const Shape& angles = args.shape(angles_);
      HeadTurner::Check(angles, head_dim_);
      ExpectShape(angles, {expected[0], 2, angles[2]}, "angles");
    }
    return {Tensor::Meta(DType::kF32, query)};
  }

  Cost Work(const Args& args, std::span<const Value> outputs) const override {
    // What the cache holds is not known here: the tokens of this step alone.
    Cost cost = Layer::Work(args, outputs);
    const double tokens = static_cast<double>(args.shape(query_)[0]);
    cost.flops = 2 * tokens * tokens * static_cast<double>(heads_ * head_dim_);
    return cost;
  }

 protected:
  struct Batch {
    const SequenceBatch& sequences;
    KvCache& cache;
  };
  static void ExpectShape(const Shape& got, const Shape& expected, const char* what) {
    if (got == expected) return;
    throw Error(ErrorCode::kInvalidArgument, std::string("expected ") + what + " " +
                                                 expected.ToString() + ", got " + got.ToString());
  }

  /// The caller's batch, once it is known to fit the model and the rows of this run.
  Batch BatchOf(const Context& context, int64_t rows) const {
    const SequenceBatch* sequences = SequenceBatch::Of(context);
    if (sequences == nullptr || sequences->cache() == nullptr) {
      throw Error(ErrorCode::kInvalidArgument,
                  "attention over a cache needs a SequenceBatch as RunOptions::state");
    }
    const KvCache& cache = *sequences->cache();
    const KvShape& shape = cache.shape();
    if (layer_ >= shape.layers || shape.heads != kv_heads_ || shape.head_dim != head_dim_) {
      throw Error(ErrorCode::kInvalidArgument,
                  "the cache has other layers or heads than the model");
    }
    int64_t next = 0;
    for (const SequenceSlice& slice : sequences->slices()) {
      const int64_t tokens = CheckedAdd(slice.position, slice.count);
      const bool fits = slice.first == next && slice.count >= 0 && slice.position >= 0 &&
                        KvCache::BlocksFor(tokens) <= static_cast<int64_t>(slice.blocks.size()) &&
                        std::all_of(slice.blocks.begin(), slice.blocks.end(), [&](int32_t block) {
                          return block >= 0 && block < cache.blocks();
                        });
      if (!fits) {
        throw Error(ErrorCode::kInvalidArgument,
                    "a sequence of the batch has no blocks for its tokens, or its rows are not the "
                    "next ones");
      }
      next += slice.count;
    }
    if (next != rows) {
      throw Error(ErrorCode::kInvalidArgument, "the sequences of the batch have " +
                                                   std::to_string(next) + " rows, the input has " +
                                                   std::to_string(rows));
    }
    return {*sequences, *sequences->cache()};
  }

  /// The first token that the one at `last` sees.
  int64_t FirstSeen(int64_t last) const {
    if (window_ == 0) return 0;
    return chunked_ ? last / window_ * window_ : std::max<int64_t>(0, last - window_ + 1);
  }

  /// Heads of queries that share a head of keys, as far as they are here.
  struct Group {
    int64_t first = 0, count = 0;
  };
  Group GroupOf(int64_t kv_head) const {
    const int64_t first = std::max<int64_t>(0, kv_head * group_ - first_query_);
    return {first, std::min(heads_, (kv_head + 1) * group_ - first_query_) - first};
  }
  bool has_whole_groups() const { return heads_ == kv_heads_ * group_; }

  int query_, key_, value_, angles_;
  bool interleaved_;
  int64_t layer_, heads_, kv_heads_, head_dim_;
  int64_t group_ = 1;    ///< heads of queries for each of keys, in the whole model
  int64_t first_query_;  ///< where the first one is in its group
  int64_t window_;
  bool chunked_;  ///< windows do not slide
  float scale_, softcap_;
  Tensor sinks_;       ///< of each head: a score that takes part in the softmax, but has no value
  Tensor bias_;        ///< (heads, distances): what is added to scores of tokens so far away
  Tensor key_centre_;  ///< (kv_heads * head_dim): about what keys have in common once they turned

 private:
  /// One rank's part of a model may begin and end within a group.
  void SetGroups(int64_t group) {
    if (group == 0) group = heads_ % kv_heads_ == 0 ? heads_ / kv_heads_ : 0;
    const bool fits = group > 0 && group <= INT32_MAX && first_query_ < group &&
                      (CheckedAdd(first_query_, heads_) - 1) / group + 1 == kv_heads_;
    if (!fits) {
      throw Error(ErrorCode::kInvalidModel, std::to_string(heads_) +
                                                " heads of queries cannot share " +
                                                std::to_string(kv_heads_) + " of keys");
    }
    group_ = group;
  }
};

}  // namespace oort
