// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <map>

#include "test/kit/every_float.h"
#include "test/layers/attention/attention_reference.h"

namespace oort::testing {
namespace {

struct Module {
  int64_t embed = 8, heads = 2, kdim = 8, vdim = 8;
  bool bias = true, batch_first = true, bias_kv = false, zero_attention = false, separate = false;
};

/// One call: inputs in (N,L,E) order.
struct MhaCall {
  Tensor query, key, value;
  Tensor attention_mask;  ///< numbers (L,S)
  Tensor padding_mask;    ///< bools (N,S), true: dropped
};

class MhaReference {
 public:
  explicit MhaReference(const Module& module) : m(module) {
    weights["q"] = RandomTensor(DType::kF32, {m.embed, m.embed}, 11, -1, 1);
    weights["k"] = RandomTensor(DType::kF32, {m.embed, m.kdim}, 12, -1, 1);
    weights["v"] = RandomTensor(DType::kF32, {m.embed, m.vdim}, 13, -1, 1);
    weights["out"] = RandomTensor(DType::kF32, {m.embed, m.embed}, 14, -1, 1);
    weights["in_bias"] = RandomTensor(DType::kF32, {3 * m.embed}, 15);
    weights["out_bias"] = RandomTensor(DType::kF32, {m.embed}, 16);
    weights["bias_k"] = RandomTensor(DType::kF32, {1, 1, m.embed}, 17);
    weights["bias_v"] = RandomTensor(DType::kF32, {1, 1, m.embed}, 18);
  }

  OperatorCase Case() const {
    OperatorCase result("nn.MultiheadAttention");
    result.Param("num_heads", std::to_string(m.heads)).Param("embed_dim", std::to_string(m.embed));
    if (m.batch_first) result.Param("batch_first", "True");
    if (m.zero_attention) result.Param("add_zero_attn", "True");
    if (m.separate) {
      for (const char* part : {"q", "k", "v"}) {
        result.Attribute(std::string(part) + "_proj_weight", weights.at(part));
      }
    } else {
      Tensor joint(weights.at("q").dtype(), {3 * m.embed, m.embed});
      std::byte* to = joint.raw();
      for (const char* part : {"q", "k", "v"}) {
        const Tensor& weight = weights.at(part);
        to = std::copy_n(weight.raw(), weight.bytes(), to);
      }
      result.Attribute("in_proj_weight", joint);
    }
    result.Attribute("out_proj.weight", weights.at("out"));
    if (m.bias) {
      result.Attribute("in_proj_bias", weights.at("in_bias"));
      result.Attribute("out_proj.bias", weights.at("out_bias"));
    }
    if (m.bias_kv) {
      result.Attribute("bias_k", weights.at("bias_k"));
      result.Attribute("bias_v", weights.at("bias_v"));
    }
    return result;
  }

  /// The output (N,L,E) and the weights averaged over the heads (N,L,S).
  std::vector<Tensor> Run(const MhaCall& call) const {
    const int64_t batch = call.query.dim(0), queries = call.query.dim(1);
    const int64_t given = call.key.dim(1), dim = m.embed / m.heads;
    const int64_t keys = given + (m.bias_kv ? 1 : 0) + (m.zero_attention ? 1 : 0);
    const std::vector<double> q = Heads(call.query, "q", 0, queries, nullptr);
    const std::vector<double> k = Heads(call.key, "k", 1, keys, "bias_k");
    const std::vector<double> v = Heads(call.value, "v", 2, keys, "bias_v");
    const auto mask = [&](int64_t i, int64_t l, int64_t s) {
      if (s >= given) return 0.0;
      double sum = 0;
      if (call.attention_mask.defined()) {
        sum += Element(call.attention_mask, l * given + s);
      }
      if (call.padding_mask.defined() && call.padding_mask.data<bool>()[i / m.heads * given + s]) {
        sum = -kInf;
      }
      return sum;
    };
    std::vector<double> soft;
    const std::vector<double> mixed =
        Attend({batch * m.heads, queries, keys, dim, dim}, q.data(), k.data(), v.data(),
               1 / std::sqrt(static_cast<double>(dim)), mask, &soft);
    return {Output(mixed, batch, queries),
            Mean(soft, batch, queries * keys, {batch, queries, keys})};
  }

  MhaReference Converted(const Convert& convert) const {
    MhaReference result = *this;
    for (auto& [name, tensor] : result.weights) tensor = convert(tensor);
    return result;
  }

  Module m;
  std::map<std::string, Tensor> weights;

 private:
  /// Projects (N,L,in), appends the extra rows and sorts into (N,heads,rows,dim).
  std::vector<double> Heads(const Tensor& x, const char* part, int64_t number, int64_t rows,
                            const char* extra) const {
    const Tensor& weight = weights.at(part);
    const int64_t batch = x.dim(0), given = x.dim(1), in = x.dim(2), dim = m.embed / m.heads;
    std::vector<double> result(static_cast<size_t>(batch * m.heads * rows * dim), 0.0);
    for (int64_t b = 0; b < batch; ++b) {
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t e = 0; e < m.embed; ++e) {
          double value = 0;
          if (r < given) {
            for (int64_t i = 0; i < in; ++i) {
              value += Element(x, (b * given + r) * in + i) * Element(weight, e * in + i);
            }
            if (m.bias) {
              value += Element(weights.at("in_bias"), number * m.embed + e);
            }
          } else if (r == given && m.bias_kv) {
            value = Element(weights.at(extra), e);
          }
          result[static_cast<size_t>(((b * m.heads + e / dim) * rows + r) * dim + e % dim)] = value;
        }
      }
    }
    return result;
  }

  Tensor Output(const std::vector<double>& mixed, int64_t batch, int64_t queries) const {
    const int64_t dim = m.embed / m.heads;
    const Tensor& weight = weights.at("out");
    std::vector<double> out;
    for (int64_t row = 0; row < batch * queries; ++row) {
      for (int64_t e = 0; e < m.embed; ++e) {
        double sum = m.bias ? Element(weights.at("out_bias"), e) : 0.0;
        for (int64_t i = 0; i < m.embed; ++i) {
          const int64_t b = row / queries, l = row % queries;
          const int64_t at = ((b * m.heads + i / dim) * queries + l) * dim + i % dim;
          sum += mixed[static_cast<size_t>(at)] * Element(weight, e * m.embed + i);
        }
        out.push_back(sum);
      }
    }
    return Rounded(out, {batch, queries, m.embed});
  }

  /// In the dtype of the weights.
  Tensor Rounded(const std::vector<double>& values, Shape shape) const {
    return Tensor::From<double>(std::span<const double>(values), shape).To(weights.at("q").dtype());
  }

  Tensor Mean(const std::vector<double>& soft, int64_t batch, int64_t block, Shape shape) const {
    std::vector<double> mean(static_cast<size_t>(batch * block), 0.0);
    for (size_t i = 0; i < soft.size(); ++i) {
      const int64_t at = static_cast<int64_t>(i);
      const int64_t b = at / (m.heads * block);
      mean[static_cast<size_t>(b * block + at % block)] += soft[i] / static_cast<double>(m.heads);
    }
    return Rounded(mean, shape);
  }
};

/// (N,L,E) as (L,N,E).
Tensor SwapFirst(const Tensor& x) {
  const int64_t n = x.dim(0), l = x.dim(1), e = x.dim(2);
  Tensor y(DType::kF32, {l, n, e});
  for (int64_t i = 0; i < n * l; ++i) {
    std::copy_n(x.data<float>() + i * e, e, y.data<float>() + (i % l * n + i / l) * e);
  }
  return y;
}

MhaCall Inputs(const Module& m, int64_t batch, int64_t queries, int64_t keys) {
  MhaCall call;
  call.query = RandomTensor(DType::kF32, {batch, queries, m.embed}, 21);
  call.key = RandomTensor(DType::kF32, {batch, keys, m.kdim}, 22);
  call.value = RandomTensor(DType::kF32, {batch, keys, m.vdim}, 23);
  return call;
}

Tensor Flags(Shape shape) {
  Tensor flags(DType::kBool, shape);
  for (int64_t i = 0; i < flags.elements(); ++i) flags.data<bool>()[i] = i % 4 == 1;
  return flags;
}

Tensor NumbersOf(const Tensor& flags) {
  Tensor numbers = Tensor::Zeros(DType::kF32, flags.shape());
  for (int64_t i = 0; i < flags.elements(); ++i) {
    if (flags.data<bool>()[i]) {
      numbers.data<float>()[i] = -std::numeric_limits<float>::infinity();
    }
  }
  return numbers;
}

TEST(MultiheadAttention, TakesOneTwoOrThreeInputs) {
  for (bool batch_first : {true, false}) {
    const MhaReference reference({.batch_first = batch_first});
    const auto arrange = [&](const Tensor& x) { return batch_first ? x : SwapFirst(x); };
    MhaCall call = Inputs(reference.m, 2, 5, 7);
    reference.Case()
        .Input(arrange(call.query))
        .Input(arrange(call.key))
        .Input(arrange(call.value))
        .ExpectOutputs({arrange(reference.Run(call)[0])}, {1e-4, 1e-4});
    call.value = call.key;
    reference.Case()
        .Input(arrange(call.query))
        .Input(arrange(call.key))
        .ExpectOutputs({arrange(reference.Run(call)[0])}, {1e-4, 1e-4});
    call.value = call.key = call.query;
    reference.Case()
        .Input(arrange(call.query))
        .ExpectOutputs({arrange(reference.Run(call)[0])}, {1e-4, 1e-4});
  }
}

TEST(MultiheadAttention, ProjectsByOneProductOrByThree) {
  constexpr Tolerance kWide{2e-3, 2e-3};  // long sums make sharp weights
  for (int64_t embed : {96, 20}) {        // whole panels on every instruction set, and not
    for (bool batch_first : {true, false}) {
      const MhaReference reference(
          {.embed = embed, .heads = 4, .kdim = embed, .vdim = embed, .batch_first = batch_first});
      const auto arrange = [&](const Tensor& x) { return batch_first ? x : SwapFirst(x); };
      MhaCall call = Inputs(reference.m, 3, 9, 9);
      reference.Case()
          .Input(arrange(call.query))
          .Input(arrange(call.key))
          .Input(arrange(call.value))
          .ExpectOutputs({arrange(reference.Run(call)[0])}, kWide);
      call.value = call.key = call.query;
      reference.Case()
          .Input(arrange(call.query))
          .ExpectOutputs({arrange(reference.Run(call)[0])}, kWide);
    }
  }
}

TEST(MultiheadAttention, GivesTheMeanWeights) {
  const MhaReference reference({.embed = 12, .heads = 3, .kdim = 12, .vdim = 12});
  const MhaCall call = Inputs(reference.m, 2, 70, 9);
  reference.Case()
      .Outputs(2)
      .Input(call.query)
      .Input(call.key)
      .Input(call.value)
      .ExpectOutputs(reference.Run(call), {1e-4, 1e-4});
}

TEST(MultiheadAttention, TakesModulesOfEveryKind) {
  for (int kind = 0; kind < 16; ++kind) {
    for (bool batch_first : {true, false}) {
      SCOPED_TRACE(kind);
      Module module{.bias = (kind & 1) != 0,
                    .batch_first = batch_first,
                    .bias_kv = (kind & 2) != 0,
                    .zero_attention = (kind & 4) != 0,
                    .separate = (kind & 8) != 0};
      if (module.separate) {
        module.kdim = 5;
        module.vdim = 6;
      }
      const MhaReference reference(module);
      const auto arrange = [&](const Tensor& x) { return batch_first ? x : SwapFirst(x); };
      MhaCall call = Inputs(reference.m, 2, 5, 7);
      call.attention_mask = RandomTensor(DType::kF32, {5, 7}, 31);
      std::vector<Tensor> expected = reference.Run(call);
      expected[0] = arrange(expected[0]);
      reference.Case()
          .Outputs(2)
          .Input(arrange(call.query))
          .Input(arrange(call.key))
          .Input(arrange(call.value))
          .Input(call.attention_mask, "attn_mask")
          .ExpectOutputs(expected, {1e-4, 1e-4});
    }
  }
}

TEST(MultiheadAttention, TakesEveryFloat) {
  for (bool appends : {false, true}) {
    const MhaReference reference({.bias_kv = appends, .zero_attention = appends});
    MhaCall call = Inputs(reference.m, 2, 5, 7);
    call.attention_mask = RandomTensor(DType::kF32, {5, 7}, 31);
    call.padding_mask = Flags({2, 7});
    ExpectEveryFloat(
        [&](const Convert& convert) {
          return reference.Converted(convert)
              .Case()
              .Outputs(2)
              .Input(call.padding_mask)
              .Input(convert(call.query))
              .Input(convert(call.key))
              .Input(convert(call.value))
              .Input(convert(call.attention_mask));
        },
        [&](const Convert& convert) {
          MhaCall converted{convert(call.query), convert(call.key), convert(call.value),
                            convert(call.attention_mask), call.padding_mask};
          return reference.Converted(convert).Run(converted);
        });
  }
}

TEST(MultiheadAttention, DropsWhereABoolMaskIsTrue) {
  const MhaReference reference(Module{});
  MhaCall call = Inputs(reference.m, 2, 5, 7);
  const Tensor flags = Flags({5, 7});
  call.attention_mask = NumbersOf(flags);
  // As pnnx writes it: the mask first, and its name on the last input.
  reference.Case()
      .Input(flags)
      .Input(call.query)
      .Input(call.key)
      .Input(call.value, "attn_mask")
      .ExpectOutputs({reference.Run(call)[0]}, {1e-4, 1e-4});
}

TEST(MultiheadAttention, TakesPaddingMasks) {
  const MhaReference reference(Module{});
  MhaCall call = Inputs(reference.m, 3, 5, 7);
  call.padding_mask = Flags({3, 7});
  reference.Case()
      .Input(call.padding_mask)
      .Input(call.query)
      .Input(call.key)
      .Input(call.value, "attn_mask")
      .ExpectOutputs({reference.Run(call)[0]}, {1e-4, 1e-4});
  reference.Case()
      .Input(call.query)
      .Input(call.key)
      .Input(call.value)
      .Input(NumbersOf(call.padding_mask), "attn_mask")
      .ExpectOutputs({reference.Run(call)[0]}, {1e-4, 1e-4});
  // Both masks, in both orders that occur.
  const Tensor flags = Flags({5, 7});
  call.attention_mask = NumbersOf(flags);
  reference.Case()
      .Input(call.padding_mask)
      .Input(flags)
      .Input(call.query)
      .Input(call.key)
      .Input(call.value, "attn_mask")
      .ExpectOutputs({reference.Run(call)[0]}, {1e-4, 1e-4});
  reference.Case()
      .Input(call.query)
      .Input(call.key)
      .Input(call.value)
      .Input(call.attention_mask)
      .Input(NumbersOf(call.padding_mask), "attn_mask")
      .ExpectOutputs({reference.Run(call)[0]}, {1e-4, 1e-4});
}

TEST(MultiheadAttention, TakesAMaskForEachHead) {
  const MhaReference reference(Module{});
  MhaCall call = Inputs(reference.m, 2, 5, 7);
  call.attention_mask = RandomTensor(DType::kF32, {5, 7}, 31);
  Tensor by_head(DType::kF32, {4, 5, 7});
  for (int64_t i = 0; i < by_head.elements(); ++i) {
    by_head.data<float>()[i] = call.attention_mask.data<float>()[i % 35];
  }
  reference.Case()
      .Input(call.query)
      .Input(call.key)
      .Input(call.value)
      .Input(by_head, "attn_mask")
      .ExpectOutputs({reference.Run(call)[0]}, {1e-4, 1e-4});
}

TEST(MultiheadAttention, TakesInputsWithoutABatch) {
  const MhaReference reference({.batch_first = false});
  MhaCall call = Inputs(reference.m, 1, 5, 7);
  call.value = call.key;
  const std::vector<Tensor> expected = reference.Run(call);
  reference.Case()
      .Outputs(2)
      .Input(call.query.Reshaped({5, 8}))
      .Input(call.key.Reshaped({7, 8}))
      .ExpectOutputs({expected[0].Reshaped({5, 8}), expected[1].Reshaped({5, 7})}, {1e-4, 1e-4});
  call.padding_mask = Flags({1, 7});
  reference.Case()
      .Input(call.padding_mask.Reshaped({7}))
      .Input(call.query.Reshaped({5, 8}))
      .Input(call.key.Reshaped({7, 8}), "attn_mask")
      .ExpectOutputs({reference.Run(call)[0].Reshaped({5, 8})}, {1e-4, 1e-4});
}

TEST(MultiheadAttention, GivesNanWhereAllIsMasked) {
  const MhaReference reference(Module{});
  MhaCall call = Inputs(reference.m, 1, 3, 4);
  Tensor flags(DType::kBool, {3, 4});
  for (int64_t i = 0; i < 12; ++i) flags.data<bool>()[i] = i / 4 == 1;
  Tensor expected = reference.Run(call)[0];
  std::fill_n(expected.data<float>() + 8, 8, NAN);
  reference.Case()
      .Input(flags)
      .Input(call.query)
      .Input(call.key)
      .Input(call.value)
      .ExpectOutputs({expected}, {1e-4, 1e-4});
}

TEST(MultiheadAttention, RefusesWhatDoesNotFit) {
  const MhaReference reference(Module{});
  const auto run = [&](std::vector<Shape> shapes) {
    OperatorCase result = reference.Case();
    for (const Shape& shape : shapes) result.Input(RandomTensor(DType::kF32, shape));
    return result;
  };
  run({{2, 5, 9}}).ExpectError(ErrorCode::kInvalidArgument, "last axis is 8");
  run({{8}}).ExpectError(ErrorCode::kInvalidArgument, "rank 2 or 3");
  run({{2, 5, 8}, {3, 7, 8}}).ExpectError(ErrorCode::kInvalidArgument, "one length and batch");
  run({{2, 5, 8}, {2, 7, 8}, {2, 6, 8}})
      .ExpectError(ErrorCode::kInvalidArgument, "one length and batch");
  run({{2, 5, 8}, {2, 7, 8}, {2, 7, 8}, {4, 4}})
      .ExpectError(ErrorCode::kInvalidArgument, "masks that fit");
  run({{2, 5, 8}, {2, 7, 8}, {2, 7, 8}, {2, 7, 8}})
      .ExpectError(ErrorCode::kInvalidArgument, "masks that fit");
  reference.Case()
      .Input(RandomTensor(DType::kF32, {2, 5, 8}))
      .Input(RandomTensor(DType::kF32, {3, 5, 5}), "attn_mask")
      .ExpectError(ErrorCode::kInvalidArgument, "attention mask of shape (5,5) or (4,5,5)");
  reference.Case()
      .Param("num_heads", "3")
      .Input(RandomTensor(DType::kF32, {2, 5, 8}))
      .ExpectError(ErrorCode::kInvalidArgument, "3 heads");
  reference.Case()
      .Param("num_heads", "0")
      .Input(RandomTensor(DType::kF32, {2, 5, 8}))
      .ExpectError(ErrorCode::kInvalidModel, "at least 1");
  reference.Case()
      .Attribute("in_proj_bias", RandomTensor(DType::kF32, {8}))
      .Input(RandomTensor(DType::kF32, {2, 5, 8}))
      .ExpectError(ErrorCode::kInvalidArgument, "24 elements");
  OperatorCase("nn.MultiheadAttention")
      .Param("num_heads", "2")
      .Input(RandomTensor(DType::kF32, {2, 5, 8}))
      .ExpectError(ErrorCode::kInvalidModel, "out_proj.weight");
}

}  // namespace
}  // namespace oort::testing
