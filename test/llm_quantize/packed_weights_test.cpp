// SPDX-License-Identifier: MIT
// Folders of GPTQ and AWQ: the numbers of test/checkpoints/make_packed.py, and what is refused.
#include <gtest/gtest.h>

#include <cstring>

#include "kit/paths.h"
#include "llm/tiny_logits.h"
#include "llm_quantize/changed_folder.h"
#include "parser/checkpoint/checkpoint.h"

namespace oort {
namespace {

namespace fs = std::filesystem;

const fs::path kPackedModels = TestData() / "checkpoints" / "packed";
constexpr const char* kPackedNames[] = {"gptq", "gptq_symmetric", "gptq_act_order", "gptq_8_bits",
                                        "awq"};

/// scale * (code - zero) to the last bit, in a format of groups where the groups lie together.
TEST(PackedWeights, AreTheNumbersThatWerePacked) {
  for (const std::string name : kPackedNames) {
    SCOPED_TRACE(name);
    const auto packed = Checkpoint::Open(kPackedModels / name);
    const auto plain = Checkpoint::Open(kPackedModels / (name + "_plain"));
    for (const char* part : {"self_attn.q_proj", "self_attn.v_proj", "self_attn.o_proj",
                             "mlp.gate_proj", "mlp.down_proj"}) {
      const std::string weight = "model.layers.0." + std::string(part) + ".weight";
      const StoredMatrix got = packed->Matrix(weight), want = plain->Matrix(weight);
      ASSERT_EQ(got.rows, want.rows);
      ASSERT_EQ(got.columns, want.columns);
      Check(got);
      EXPECT_EQ(Name(got.format), name == "gptq_act_order"   ? "f32"
                                  : name == "gptq_symmetric" ? "int4"
                                  : name == "gptq_8_bits"    ? "uint8"
                                                             : "uint4");
      std::vector<float> a(static_cast<size_t>(got.rows * got.columns)), b(a.size());
      ReadRows(got, 0, got.rows, a.data());
      ReadRows(want, 0, want.rows, b.data());
      EXPECT_EQ(a, b);
    }
  }
}

TEST(PackedWeights, AnswerLikeTheDequantizedModel) {
  for (const std::string name : kPackedNames) {
    SCOPED_TRACE(name);
    const std::vector<float> got = TinyLogits(kPackedModels / name);
    const std::vector<float> want = TinyLogits(kPackedModels / (name + "_plain"));
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-4F);
  }
}

/// Of those that make_packed.py wrote.
testing::ChangedFolder Changed(const std::string& name) {
  return testing::ChangedFolder(kPackedModels / name);
}

TEST(PackedWeights, SayWhatIsWrong) {
  const auto invalid = ErrorCode::kInvalidModel, unsupported = ErrorCode::kUnsupported;
  Changed("gptq")
      .Replace("config.json", "\"group_size\": 8", "\"group_size\": 7")
      .ExpectRefused(invalid, "would cross the ends of rows");
  Changed("gptq")
      .Replace("config.json", "\"group_size\": 8", "\"group_size\": 4")
      .ExpectRefused(invalid, "do not fit weights");
  Changed("gptq")
      .Replace("config.json", "\"bits\": 4", "\"bits\": 3")
      .ExpectRefused(unsupported, "in 3 bits");
  Changed("gptq")
      .Replace("config.json", "\"gptq\"", "\"quip\"")
      .ExpectRefused(unsupported, "quantized by 'quip'");
  Changed("gptq")
      .Replace("model.safetensors", "q_proj.qzeros", "q_proj.qzerox")
      .ExpectRefused(unsupported, "qzerox");
  Changed("awq")
      .Replace("model.safetensors", "q_proj.scales", "q_proj.scalex")
      .ExpectRefused(invalid, "it has no scales");
}

TEST(PackedWeights, RefuseGroupsThatAreNone) {
  testing::ChangedFolder folder(kPackedModels / "gptq_act_order");
  std::string& bytes = folder.text("model.safetensors");
  const size_t entry = bytes.find("q_proj.g_idx");
  ASSERT_NE(entry, std::string::npos);
  const size_t at = bytes.find("data_offsets\": [", entry) + 16;
  const size_t begin = std::stoul(bytes.substr(at, 12));
  uint64_t header = 0;
  std::memcpy(&header, bytes.data(), sizeof(header));
  bytes[8 + header + begin] = 99;
  folder.ExpectRefused(ErrorCode::kInvalidModel, "g_idx names group 99");
}

}  // namespace
}  // namespace oort
