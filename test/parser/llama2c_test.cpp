// SPDX-License-Identifier: MIT
// Checkpoints of llama2.c: variants and broken ones. (checkpoint_test.cpp has the sound ones.)
#include <gtest/gtest.h>

#include <cstring>

#include "kit/errors.h"
#include "kit/files.h"
#include "kit/paths.h"
#include "kit/zip_builder.h"
#include "parser/checkpoint/checkpoint.h"
#include "parser/checkpoint/tokenizer_source.h"

namespace oort {
namespace {

using testing::ExpectThrows;
using testing::FileBytes;
using testing::Little;
using testing::TemporaryFolder;
using testing::WriteFile;

std::string Llama2cFile(int version) {
  return FileBytes(TestData().string() + "/checkpoints/llama2c_v" + std::to_string(version) +
                   ".bin");
}

/// The bytes with four of them replaced.
std::string WithNumber(std::string bytes, size_t at, int64_t number) {
  return bytes.replace(at, 4, Little(static_cast<uint64_t>(number), 4));
}

std::unique_ptr<Checkpoint> OpenLlama2c(const std::string& bytes) {
  const TemporaryFolder folder;
  WriteFile(folder / "model.bin", bytes);
  return Checkpoint::Open(folder / "model.bin");
}

TEST(Llama2c, ASharedHeadIsNotStored) {
  constexpr size_t kHeadBytes = 262 * 32 * 4;
  std::string legacy = WithNumber(Llama2cFile(0), 20, 262);
  legacy.resize(legacy.size() - kHeadBytes);
  std::string one = Llama2cFile(1);
  one.resize(one.size() - kHeadBytes);
  one[36] = 1;
  std::string two = Llama2cFile(2);
  two.resize(two.size() - 262 * 32 - kHeadBytes / 8);
  two[36] = 1;
  for (const std::string& bytes : {legacy, one, two}) {
    const auto checkpoint = OpenLlama2c(bytes);
    EXPECT_TRUE(checkpoint->config().tied_head);
    EXPECT_FALSE(checkpoint->Has("lm_head.weight"));
    EXPECT_EQ(checkpoint->tokenizer().kind, TokenizerSource::Kind::kNone);
  }
}

TEST(Llama2c, FindsTheTokenizerOfItsVocabulary) {
  const TemporaryFolder kuiper;
  WriteFile(kuiper / "model.bin", Llama2cFile(3));
  WriteFile(kuiper / "tokenizer.model", "sentence");
  const auto checkpoint = Checkpoint::Open(kuiper / "model.bin");
  EXPECT_EQ(checkpoint->tokenizer().kind, TokenizerSource::Kind::kSentencePiece);
  EXPECT_EQ(checkpoint->tokenizer().bytes, "sentence");
  const TemporaryFolder folder;
  WriteFile(folder / "model.bin", Llama2cFile(0));
  WriteFile(folder / "tok262.bin", "pieces");
  EXPECT_EQ(Checkpoint::Open(folder / "model.bin")->tokenizer().bytes, "pieces");
  WriteFile(folder / "tokenizer.bin", "other");
  EXPECT_EQ(Checkpoint::Open(folder / "model.bin")->tokenizer().bytes, "other");
}

TEST(Llama2c, IsExactlyAsLongAsItSays) {
  for (const int version : {0, 1, 2, 3}) {
    const std::string bytes = Llama2cFile(version);
    for (const size_t size : {size_t{0}, size_t{3}, size_t{4}, size_t{27}, size_t{28}, size_t{36},
                              size_t{255}, size_t{256}, bytes.size() - 1}) {
      EXPECT_THROW(OpenLlama2c(bytes.substr(0, size)), Error) << version << " " << size;
    }
    EXPECT_THROW(OpenLlama2c(bytes + "x"), Error);
  }
  ExpectThrows([] { OpenLlama2c(Llama2cFile(1) + "x"); }, ErrorCode::kInvalidModel,
               "its header asks for");
  ExpectThrows([] { OpenLlama2c(Llama2cFile(0) + "x"); }, ErrorCode::kInvalidModel,
               "is no language model");
}

TEST(Llama2c, SizesMakeSense) {
  for (size_t i = 0; i < 7; ++i) {
    for (const int64_t number :
         {int64_t{0}, int64_t{-1}, int64_t{INT32_MIN}, int64_t{INT32_MAX}, int64_t{7}}) {
      EXPECT_THROW(OpenLlama2c(WithNumber(Llama2cFile(0), 4 * i, number)), Error);
      if (i == 6 && number == 7) continue;  // the length of the context changes nothing there
      if (i == 6 && number == INT32_MAX) continue;
      EXPECT_THROW(OpenLlama2c(WithNumber(Llama2cFile(1), 8 + 4 * i, number)), Error);
      EXPECT_THROW(OpenLlama2c(WithNumber(Llama2cFile(2), 8 + 4 * i, number)), Error);
    }
  }
  EXPECT_EQ(OpenLlama2c(WithNumber(Llama2cFile(1), 32, 7))->config().context, 7);
  std::string all = Llama2cFile(1);
  for (size_t i = 0; i < 7; ++i) all = WithNumber(all, 8 + 4 * i, INT32_MAX);
  ExpectThrows([&] { OpenLlama2c(all); }, ErrorCode::kInvalidModel, "asks for more");
}

TEST(Llama2c, GroupsFitRows) {
  for (const int64_t group : {0, -1, 3, 16, 64, INT32_MAX}) {
    ExpectThrows([&] { OpenLlama2c(WithNumber(Llama2cFile(2), 37, group)); },
                 ErrorCode::kUnsupported, "do not fit the rows");
  }
}

TEST(Llama2c, RefusesOtherVersions) {
  for (const int64_t version : {0, 3, -1}) {
    const std::string bytes = WithNumber(Llama2cFile(1), 4, version);
    if (version == 0) {
      EXPECT_THROW(OpenLlama2c(bytes), Error);
    } else {
      ExpectThrows([&] { OpenLlama2c(bytes); }, ErrorCode::kUnsupported, "0 to 2 can be read");
    }
  }
}

std::string FloatBytes(std::initializer_list<float> values) {
  return {reinterpret_cast<const char*>(values.begin()), values.size() * sizeof(float)};
}

TEST(Llama2c, ReadsScalesThatAreNotAligned) {
  std::string bytes = Little(0x616b3432, 4) + Little(2, 4);
  for (const uint64_t size : {2, 1, 1, 1, 1, 1, 4}) bytes += Little(size, 4);
  bytes += Little(1, 1) + Little(1, 4);  // a shared head, groups of one
  bytes.resize(256);
  bytes += FloatBytes({1, 2, 3, 4, 5, 6});      // norms
  bytes += "\x01\xff" + FloatBytes({0.5F, 2});  // the embedding: at byte 280, its scales at 282
  for (int i = 0; i < 4; ++i) bytes += "\x01\x02\x03\x04" + FloatBytes({1, 1, 1, 3});
  for (int i = 0; i < 3; ++i) bytes += "\x05\x06" + FloatBytes({2, 1});
  const auto checkpoint = OpenLlama2c(bytes);
  float row[2];
  const StoredMatrix embedding = checkpoint->Matrix("model.embed_tokens.weight");
  ReadRows(embedding, 0, 1, row);
  EXPECT_EQ(row[0], 0.5F);
  EXPECT_EQ(row[1], -2);
  ReadRows(checkpoint->Matrix("model.layers.0.self_attn.v_proj.weight"), 1, 2, row);
  EXPECT_EQ(row[1], 12);
  ReadRows(checkpoint->Matrix("model.layers.0.mlp.down_proj.weight"), 0, 2, row);
  EXPECT_EQ(row[0], 10);
  EXPECT_EQ(checkpoint->Vector("model.norm.weight").data<float>()[1], 6);
}

}  // namespace
}  // namespace oort
