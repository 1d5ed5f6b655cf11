// SPDX-License-Identifier: MIT
// nn.MultiheadAttention with projections of bytes: beside plain loops where attention itself gives
// what it is given, and beside f32 with the numbers that its weights stand for.
#include <gtest/gtest.h>

#include "test/layers/quantize/plain_dynamic.h"

namespace oort::testing::dynamic_multihead {
namespace {

constexpr int64_t kEmbed = 24;

struct Form {
  bool separate = false, batch_first = true, bias_kv = false, symmetric = false;
  int64_t kdim = kEmbed, vdim = kEmbed;
};

std::map<std::string, ByteMatrix> Matrices(const Form& form) {
  std::map<std::string, ByteMatrix> matrices;
  matrices["out_proj.weight"] = ByteMatrix::Random(kEmbed, kEmbed, 3);
  if (form.separate) {
    matrices["q_proj_weight"] = ByteMatrix::Random(kEmbed, kEmbed, 5);
    matrices["k_proj_weight"] = ByteMatrix::Random(kEmbed, form.kdim, 7);
    matrices["v_proj_weight"] = ByteMatrix::Random(kEmbed, form.vdim, 9);
  } else {
    matrices["in_proj_weight"] = ByteMatrix::Random(3 * kEmbed, kEmbed, 11);
  }
  return matrices;
}

Tensor InBias() { return RandomTensor(DType::kF32, {3 * kEmbed}, 13); }
Tensor OutBias() { return RandomTensor(DType::kF32, {kEmbed}, 14); }

/// With weights of bytes, or with the floats that they stand for.
OperatorCase CaseOf(const Form& form, bool bytes) {
  OperatorCase test(bytes ? "oort.DynamicMultiheadAttention" : "nn.MultiheadAttention");
  test.Param("num_heads", "3").Param("batch_first", form.batch_first ? "True" : "False");
  if (bytes) test.Param("symmetric", form.symmetric ? "True" : "False");
  for (const auto& [name, matrix] : Matrices(form)) {
    test.Attribute(name, bytes ? matrix.weight : matrix.Floats());
    if (bytes) test.Attribute(name + "_scales", matrix.scales);
  }
  test.Attribute("in_proj_bias", InBias()).Attribute("out_proj.bias", OutBias());
  if (form.bias_kv) {
    test.Attribute("bias_k", RandomTensor(DType::kF32, {1, 1, kEmbed}, 15));
    test.Attribute("bias_v", RandomTensor(DType::kF32, {1, 1, kEmbed}, 16));
  }
  return test;
}

/// A query that sees one key gives the projected value, projected again.
TEST(DynamicMultihead, ProjectsWithTheBitsOfPlainLoops) {
  for (const bool symmetric : {false, true}) {
    const Form form{.symmetric = symmetric};
    const auto matrices = Matrices(form);
    const ByteMatrix& in = matrices.at("in_proj_weight");
    const ByteMatrix& out = matrices.at("out_proj.weight");
    const Tensor x = RandomTensor(DType::kF32, {5, 1, kEmbed}, 1);
    Tensor want(DType::kF32, {5, 1, kEmbed});
    for (int64_t i = 0; i < 5; ++i) {
      const std::vector<float> value = PlainDynamicProduct(
          x.data<float>() + i * kEmbed, in.weight.Rows(2 * kEmbed, 3 * kEmbed),
          in.scales.Rows(2 * kEmbed, 3 * kEmbed), InBias().Rows(2 * kEmbed, 3 * kEmbed), symmetric);
      const std::vector<float> row =
          PlainDynamicProduct(value.data(), out.weight, out.scales, OutBias(), symmetric);
      std::copy(row.begin(), row.end(), want.data<float>() + i * kEmbed);
    }
    CaseOf(form, true).Input(x).ExpectOutputs({want}, {1e-6, 1e-6});
  }
}

/// Rows of bytes change the answers by little, whatever the form of the module.
TEST(DynamicMultihead, IsNearToFloats) {
  const Tensor x = RandomTensor(DType::kF32, {2, 7, kEmbed}, 1);
  const auto check = [](const Form& form, const std::vector<Tensor>& inputs) {
    OperatorCase floats = CaseOf(form, false), bytes = CaseOf(form, true);
    for (const Tensor& input : inputs) {
      floats.Input(input);
      bytes.Input(input);
    }
    const std::vector<Tensor> want = floats.Outputs(2).Run();
    bytes.Outputs(2).ExpectOutputs(want, {0.1, 0.02});
  };
  check({}, {x});
  check({.batch_first = false, .symmetric = true}, {x});
  check({.bias_kv = true}, {x});
  check({.batch_first = false, .bias_kv = true}, {x});
  const Tensor keys = RandomTensor(DType::kF32, {2, 9, 10}, 2);
  const Tensor values = RandomTensor(DType::kF32, {2, 9, 17}, 3);
  check({.separate = true, .kdim = 10, .vdim = 17}, {x, keys, values});
  const Tensor padding = RandomTensor(DType::kBool, {2, 7}, 4);
  Tensor some = padding.Clone();
  for (int64_t i = 0; i < 2; ++i) some.data<bool>()[i * 7] = false;  // each sees a key
  check({}, {x, some});
}

TEST(DynamicMultihead, RefusesWhatDoesNotFit) {
  const Tensor x = RandomTensor(DType::kF32, {2, 7, kEmbed}, 1);
  const auto refuses = [&](const char* name, const Tensor& tensor, const char* says,
                           ErrorCode code = ErrorCode::kInvalidModel) {
    CaseOf({}, true).Attribute(name, tensor).Input(x).ExpectError(code, says);
  };
  refuses("in_proj_weight_scales", RandomTensor(DType::kF32, {kEmbed}, 1, 0.1, 0.2),
          "expected '@in_proj_weight_scales' of 72 elements");
  Tensor scales = RandomTensor(DType::kF32, {kEmbed}, 1, 0.1, 0.2);
  scales.data<float>()[3] = NAN;
  refuses("out_proj.weight_scales", scales, "'@out_proj.weight': expected a scale above 0");
  refuses("out_proj.weight", RandomTensor(DType::kF32, {kEmbed, kEmbed}),
          "'@out_proj.weight' has dtype f32", ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace oort::testing::dynamic_multihead
