// SPDX-License-Identifier: MIT
// Folders of compressed-tensors, FP8 and MXFP4: the numbers and tokens of the packages that write
// them (test/checkpoints/make_scaled.py), and what is refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kit/paths.h"
#include "llm/decoder_runner.h"
#include "llm_quantize/changed_folder.h"
#include "parser/huggingface/packed_parts.h"
#include "text/json.h"

namespace oort {
namespace {

namespace fs = std::filesystem;
using testing::ChangedFolder;

const fs::path kScaledModels = TestData() / "checkpoints" / "scaled";

struct ScaledModel {
  const char* name;
  const char* format;  ///< that the matrices are read as
};
constexpr ScaledModel kScaled[] = {
    {"ct_int4", "int4"},       {"ct_int4_zeros", "uint4"}, {"ct_int4_act_order", "f32"},
    {"ct_int8_words", "int8"}, {"ct_int8", "int8"},        {"ct_int8_zeros", "uint8"},
    {"ct_fp8", "f32"},         {"ct_nvfp4", "int8"},       {"ct_mxfp4", "mxfp4"},
    {"fp8_blocks", "f32"},     {"fp8_tensor", "f32"},      {"mxfp4", "mxfp4"}};

std::vector<float> ValuesOf(const StoredMatrix& matrix) {
  std::vector<float> values(static_cast<size_t>(matrix.rows * matrix.columns));
  ReadRows(matrix, 0, matrix.rows, values.data());
  return values;
}

TEST(ScaledWeights, AreTheNumbersOfThePackages) {
  for (const ScaledModel& model : kScaled) {
    SCOPED_TRACE(model.name);
    const auto packed = Checkpoint::Open(kScaledModels / model.name);
    const auto plain = Checkpoint::Open(kScaledModels / (std::string(model.name) + "_plain"));
    for (const char* part : {"self_attn.q_proj", "self_attn.k_proj", "self_attn.o_proj",
                             "mlp.up_proj", "mlp.down_proj"}) {
      SCOPED_TRACE(part);
      const std::string weight = "model.layers.0." + std::string(part) + ".weight";
      const StoredMatrix got = packed->Matrix(weight), want = plain->Matrix(weight);
      ASSERT_EQ(got.rows, want.rows);
      ASSERT_EQ(got.columns, want.columns);
      Check(got);
      EXPECT_EQ(Name(got.format), model.format);
      // A zero point makes two products of one where scales have all digits of f32.
      const std::vector<float> a = ValuesOf(got), b = ValuesOf(want);
      const bool has_minimum = got.minimum.defined();
      for (size_t i = 0; i < a.size(); ++i) {
        ASSERT_NEAR(a[i], b[i], has_minimum ? 1e-6F : 0.0F);
      }
    }
  }
}

/// Greedy, with everything in f32.
std::vector<int32_t> Answer(const fs::path& path, std::vector<int32_t> tokens, size_t count) {
  const auto model = LanguageModel::Load(path, {.exact = true});
  DecoderRunner runner(model, KvType::kF32, 64, 1);
  CachedSequence sequence;
  std::vector<int32_t> answer;
  while (answer.size() < count) {
    const StepItem item{&sequence, tokens, StepItem::kLast};
    const auto logits = runner.Step({&item, 1});
    const auto best = std::max_element(logits.begin(), logits.end());
    answer.push_back(static_cast<int32_t>(best - logits.begin()));
    tokens = {answer.back()};
  }
  sequence = {};
  return answer;
}

TEST(ScaledWeights, GiveTheTokensOfTransformers) {
  std::ifstream file(kScaledModels / "tokens.json");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const json::Json known = json::Parse(text, "tokens.json");
  const auto prompt = known["prompt"].get<std::vector<int32_t>>();
  for (const ScaledModel& model : kScaled) {
    SCOPED_TRACE(model.name);
    const auto want = known["answers"][model.name].get<std::vector<int32_t>>();
    EXPECT_EQ(Answer(kScaledModels / model.name, prompt, want.size()), want);
  }
}

ChangedFolder ChangedModel(const std::string& name) { return ChangedFolder(kScaledModels / name); }

TEST(ScaledWeights, SayWhatIsWrong) {
  const auto invalid = ErrorCode::kInvalidModel, unsupported = ErrorCode::kUnsupported;
  ChangedModel("ct_int4")
      .Replace("config.json", "\"pack-quantized\"", "\"marlin-24\"")
      .ExpectRefused(unsupported, "compressed-tensors as 'marlin-24'");
  ChangedModel("fp8_blocks")
      .Replace("config.json", "\"e4m3\"", "\"e5m2\"")
      .ExpectRefused(unsupported, "fp8 as 'e5m2'");
  ChangedModel("fp8_blocks")
      .Replace("config.json", "   24,", "   12,")
      .ExpectRefused(invalid, "do not fit weights of (");
  ChangedModel("fp8_blocks")
      .Replace("config.json", "   24,", "   0,")
      .ExpectRefused(invalid, "two sizes of a block");
  ChangedModel("fp8_blocks")
      .Replace("model.safetensors", "q_proj.weight_scale_inv", "q_proj.weight_scale_inw")
      .ExpectRefused(invalid, "q_proj': it has no weight_scale");
  ChangedModel("ct_int4")
      .Replace("model.safetensors", "q_proj.weight_shape", "q_proj.weight_shapf")
      .ExpectRefused(unsupported, "weight_shapf");
  ChangedModel("ct_int8")
      .Replace("model.safetensors", "q_proj.weight_scale", "q_proj.input_scalee")
      .ExpectRefused(invalid, "q_proj': it has no weight_scale");
}

/// The bytes of a tensor in a file of safetensors.
std::string_view BytesOf(const std::string& file, const std::string& name, size_t* at) {
  uint64_t size = 0;
  std::memcpy(&size, file.data(), sizeof(size));
  const json::Json header = json::Parse(std::string_view(file).substr(8, size), "header");
  const auto offsets = header[name]["data_offsets"].get<std::vector<size_t>>();
  *at = 8 + size + offsets[0];
  return std::string_view(file).substr(*at, offsets[1] - offsets[0]);
}

/// All bytes of a tensor from the first of these on become `value`, `count` of them.
void ExpectRefusedWith(const std::string& model, const std::string& tensor, size_t first,
                       size_t count, int value, std::string_view says) {
  ChangedFolder folder(kScaledModels / model);
  std::string& bytes = folder.text("model.safetensors");
  size_t at = 0;
  ASSERT_GE(BytesOf(bytes, tensor, &at).size(), first + count);
  std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(at + first), count,
              static_cast<char>(value));
  folder.ExpectRefused(ErrorCode::kInvalidModel, says);
}

TEST(ScaledWeights, RefuseNumbersThatMakeNoSense) {
  const std::string up = "model.layers.0.mlp.up_proj.";
  ExpectRefusedWith("ct_int4", up + "weight_shape", 0, 1, 5, "do not hold weights of (5,");
  ExpectRefusedWith("ct_int4", up + "weight_shape", 15, 1, 1, "do not hold weights");
  ExpectRefusedWith("ct_int4_act_order", up + "weight_g_idx", 0, 1, 77, "names group 77");
  ExpectRefusedWith("mxfp4", up + "weight_scales", 3, 1, 255, "not finite");
  ExpectRefusedWith("ct_fp8", up + "weight_scale", 0, 4, 255, "not finite");
  ExpectRefusedWith("ct_nvfp4", up + "weight_global_scale", 0, 4, 0, "is no number");
}

}  // namespace
}  // namespace oort
