// SPDX-License-Identifier: MIT
// Attention on the GPU against that of the CPU.
#include <algorithm>
#include <cmath>
#include <limits>

#include "test/cuda/operators_on_gpu.h"

namespace oort {
namespace {

class CudaAttention : public OperatorsOnGpu {};

TEST_F(CudaAttention, Attention) {
  const auto random = [](Shape shape, uint64_t seed) {
    return testing::RandomTensor(DType::kF32, shape, seed, -1, 1);
  };
  for (int64_t length : {1, 7, 33, 100}) {
    const Tensor q = random({2, 3, length, 40}, 1), k = random({2, 3, 50, 40}, 2);
    const Tensor v = random({2, 3, 50, 24}, 3);
    ExpectSame("F.scaled_dot_product_attention", "", {q, k, v});
    ExpectSame("F.scaled_dot_product_attention", "is_causal=True", {q, k, v});
    ExpectSame("F.scaled_dot_product_attention", "", {q, k, v, random({length, 50}, 4)});
    ExpectSame("F.scaled_dot_product_attention", "",
               {q, k, v, testing::RandomTensor(DType::kBool, {2, 1, length, 50}, 5)});
  }
  const Tensor q = random({2, 9, 4, 16}, 1), k = random({2, 11, 4, 16}, 2);
  ExpectSame("oort.Attention",
             "query_heads_last=True key_heads_last=True value_heads_last=True "
             "output_heads_last=True rank=4",
             {q, k, random({2, 11, 4, 16}, 3)});
}

TEST_F(CudaAttention, MultiheadAttention) {
  const auto random = [](Shape shape, uint64_t seed) {
    return testing::RandomTensor(DType::kF32, shape, seed, -0.5, 0.5);
  };
  const std::map<std::string, Tensor> weights = {{"in_proj_weight", random({72, 24}, 1)},
                                                 {"in_proj_bias", random({72}, 2)},
                                                 {"out_proj.weight", random({24, 24}, 3)},
                                                 {"out_proj.bias", random({24}, 4)}};
  const testing::Tolerance tolerance = {1e-5, 1e-5};
  for (const char* first : {"True", "False"}) {
    const std::string params = std::string("num_heads=3 batch_first=") + first;
    for (int outputs : {1, 2}) {
      ExpectSame("nn.MultiheadAttention", params, {random({5, 5, 24}, 5)}, outputs, weights,
                 tolerance);
      ExpectSame("nn.MultiheadAttention", params,
                 {random({4, 6, 24}, 5), random({4, 6, 24}, 6), random({4, 6, 24}, 7)}, outputs,
                 weights, tolerance);
    }
  }
  ExpectSame("nn.MultiheadAttention", "num_heads=2 batch_first=True", {random({9, 24}, 5)}, 1,
             weights, tolerance);
  ExpectSame("nn.MultiheadAttention", "num_heads=2 batch_first=True $attn_mask=x1",
             {random({2, 7, 24}, 5), random({7, 7}, 6)}, 1, weights, tolerance);
}

TEST_F(CudaAttention, JointAttention) {
  for (const Shape& shape :
       {Shape{50, 72}, Shape{2, 33, 72}, Shape{2, 3, 7, 768}, Shape{0, 5, 72}}) {
    ExpectSame("oort.JointAttention", "heads=4",
               {testing::RandomTensor(DType::kF32, shape, 1, -1, 1)});
  }
}

TEST_F(CudaAttention, AttentionIn16Bits) {
  const auto random = [](DType dtype, Shape shape, uint64_t seed) {
    return testing::RandomTensor(dtype, shape, seed, -1, 1);
  };
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    const testing::Tolerance tolerance = {dtype == DType::kF16 ? 2e-3 : 2e-2, 0};
    const Tensor q = random(dtype, {2, 3, 33, 40}, 1), k = random(dtype, {2, 3, 50, 40}, 2);
    const Tensor v = random(dtype, {2, 3, 50, 24}, 3);
    ExpectSame("F.scaled_dot_product_attention", "", {q, k, v}, 1, {}, tolerance);
    ExpectSame("F.scaled_dot_product_attention", "is_causal=True", {q, k, v}, 1, {}, tolerance);
    ExpectSame("F.scaled_dot_product_attention", "", {q, k, v, random(dtype, {33, 50}, 4)}, 1, {},
               tolerance);
    ExpectSame("oort.JointAttention", "heads=4", {random(dtype, {2, 50, 72}, 5)}, 1, {}, tolerance);
  }
}

/// What two roundings to `dtype` make of a result, and what weights that are rounded make of a sum.
testing::Tolerance RoundingTo(DType dtype) {
  return dtype == DType::kF16 ? testing::Tolerance{3e-4, 1e-3} : testing::Tolerance{3e-3, 8e-3};
}

TEST_F(CudaAttention, JointAttentionIn16BitsOfUsualHeads) {
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    // 72 elements are zeros behind them to the kernel, and 160 are for the one without tensor
    // cores.
    for (const int64_t width : {32, 64, 72, 80, 96, 128, 160}) {
      for (const int64_t tokens : {1, 7, 49, 50, 197}) {
        const Tensor input = testing::RandomTensor(dtype, {2, tokens, 3 * 3 * width}, 1, -1, 1);
        ExpectSame("oort.JointAttention", "heads=3", {input}, 1, {}, RoundingTo(dtype));
      }
    }
    ExpectSame("oort.JointAttention", "heads=2",
               {testing::RandomTensor(dtype, {577, 3 * 2 * 64}, 2, -1, 1)}, 1, {},
               RoundingTo(dtype));
    ExpectSame("oort.JointAttention", "heads=3",
               {testing::RandomTensor(dtype, {128, 49, 3 * 3 * 32}, 3, -1, 1)}, 1, {},
               RoundingTo(dtype));
  }
}

TEST_F(CudaAttention, MasksIn16BitsOnTensorCores) {
  constexpr float kNothing = -std::numeric_limits<float>::infinity();
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    const auto random = [&](Shape shape, uint64_t seed, double most) {
      return testing::RandomTensor(dtype, shape, seed, -most, most);
    };
    const auto same = [&](const std::string& params, const std::vector<Tensor>& inputs) {
      ExpectSame("F.scaled_dot_product_attention", params, inputs, 1, {}, RoundingTo(dtype));
    };
    for (const int64_t keys : {49, 130}) {
      for (const int64_t queries : {1, 50, 130}) {
        const Tensor q = random({2, 3, queries, 64}, 1, 2), k = random({2, 3, keys, 64}, 2, 2);
        const Tensor v = random({2, 3, keys, 48}, 3, 1);
        same("", {q, k, v});
        same("is_causal=True", {q, k, v});
        for (const Shape& shape : {Shape{queries, keys}, Shape{2, 3, queries, keys},
                                   Shape{3, 1, keys}, Shape{2, 1, queries, 1}}) {
          // The first row hides all.
          Tensor wide = testing::RandomTensor(DType::kF32, shape, 4, -2, 2);
          Tensor flags = testing::RandomTensor(DType::kBool, shape, 5);
          std::fill_n(wide.data<float>(), shape[shape.rank() - 1], kNothing);
          std::fill_n(flags.data<bool>(), shape[shape.rank() - 1], false);
          same("", {q, k, v, wide.To(dtype)});
          same("", {q, k, v, flags});
        }
      }
    }
    const Tensor query = random({2, 6, 70, 64}, 1, 2);  // pairs of heads share keys
    same("enable_gqa=True", {query, random({2, 3, 90, 64}, 2, 2), random({2, 3, 90, 64}, 3, 1)});
    ExpectSame(
        "oort.Attention",
        "query_heads_last=True key_heads_last=True value_heads_last=True "
        "output_heads_last=True rank=4 scale=0.25",
        {random({2, 70, 4, 32}, 1, 2), random({2, 49, 4, 32}, 2, 2), random({2, 49, 4, 32}, 3, 1)},
        1, {}, RoundingTo(dtype));
    Tensor hides = testing::RandomTensor(DType::kF32, {5, 49}, 4, -2, 2);
    std::fill_n(hides.data<float>(), 49, kNothing);  // a plain softmax makes NaN of it
    ExpectSame("oort.Attention", "plain_softmax=True",
               {random({3, 5, 64}, 1, 2), random({3, 49, 64}, 2, 2), random({3, 49, 64}, 3, 1),
                hides.To(dtype)},
               1, {}, RoundingTo(dtype));
  }
}

TEST_F(CudaAttention, AttentionWithAMaskOfAnotherDTypeRunsOnTheHost) {
  const Tensor q = testing::RandomTensor(DType::kF16, {2, 3, 40}, 1, -1, 1);
  const Tensor mask = testing::RandomTensor(DType::kF32, {3, 3}, 2, -1, 1);
  const Graph graph = MakeGraph("F.scaled_dot_product_attention", "", {q, q, q, mask}, 1, {});
  LoadOptions options;
  options.device = Device::Cuda(0);
  const Tensor got = Session(RuntimeGraph::Build(graph, options)).Forward({q, q, q, mask})[0];
  const Tensor want = Session(RuntimeGraph::Build(graph)).Forward({q, q, q, mask})[0];
  testing::ExpectNear(got, want, {0, 0});
}

TEST_F(CudaAttention, MultiheadAttentionIn16Bits) {
  const auto random = [](Shape shape, uint64_t seed, double most) {
    return testing::RandomTensor(DType::kF32, shape, seed, -most, most);
  };
  const std::map<std::string, Tensor> weights = {{"in_proj_weight", random({192, 64}, 1, 0.2)},
                                                 {"in_proj_bias", random({192}, 2, 0.2)},
                                                 {"out_proj.weight", random({64, 64}, 3, 0.2)},
                                                 {"out_proj.bias", random({64}, 4, 0.2)}};
  const Tensor input = random({3, 50, 64}, 5, 1);
  const Graph graph =
      MakeGraph("nn.MultiheadAttention", "num_heads=4 batch_first=True", {input}, 1, weights);
  const Tensor want = Session(RuntimeGraph::Build(graph)).Forward({input})[0];
  for (const Precision precision : {Precision::kF16, Precision::kBF16}) {
    LoadOptions options;
    options.device = Device::Cuda(0);
    options.precision = precision;
    const auto built = RuntimeGraph::Build(graph, options);
    Session session(built);
    for (int run = 0; run < 4; ++run) {  // the third replays what was recorded
      const double most = precision == Precision::kF16 ? 5e-4 : 5e-3;
      testing::ExpectNear(session.Forward({input})[0], want, {most, 0});
    }
    for (const Operator& op : built->graph().operators) {
      EXPECT_NE(op.type, "nn.MultiheadAttention");
    }
  }
}

TEST_F(CudaAttention, MultiheadAttentionKeepsNoWeightsOnTheHost) {
  const std::map<std::string, Tensor> weights = {
      {"in_proj_weight", testing::RandomTensor(DType::kF32, {768, 256}, 1)},
      {"out_proj.weight", testing::RandomTensor(DType::kF32, {256, 256}, 2)}};
  const Graph graph = MakeGraph("nn.MultiheadAttention", "num_heads=4 batch_first=True",
                                {testing::RandomTensor(DType::kF32, {2, 7, 256}, 3)}, 1, weights);
  LoadOptions options;
  options.device = Device::Cuda(0);
  const auto built = RuntimeGraph::Build(graph, options);
  for (const Operator& op : built->graph().operators) {
    for (const auto& [name, tensor] : op.attributes) EXPECT_FALSE(tensor.has_data()) << name;
  }
  for (const auto& [name, tensor] : weights) {
    // Those of the graph and of this test; the layer has none.
    EXPECT_LE(tensor.buffer().use_count(), 2) << name;
  }
}

}  // namespace
}  // namespace oort
