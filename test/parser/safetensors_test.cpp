// SPDX-License-Identifier: MIT
// The container of safetensors: good files, and a zoo of broken ones.
#include "parser/safetensors/safetensors.h"

#include <gtest/gtest.h>

#include "kit/errors.h"
#include "kit/zip_builder.h"

namespace oort {
namespace {

using testing::ExpectThrows;
using testing::Little;

std::string SafetensorsBytes(const std::string& header, const std::string& data) {
  return Little(header.size(), 8) + header + data;
}

std::vector<safetensors::Entry> ReadSafetensors(const std::string& bytes) {
  return safetensors::ReadHeader(*ByteSource::Owned(bytes));
}

void ExpectSafetensorsProblem(const std::string& header, const std::string& data,
                              std::string_view message) {
  ExpectThrows([&] { ReadSafetensors(SafetensorsBytes(header, data)); }, ErrorCode::kInvalidModel,
               message);
}

const std::string kSoundHeader =
    R"({"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[2,3],"data_offsets":[4,16]},)"
    R"("a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
    R"("z":{"dtype":"I64","shape":[0,5],"data_offsets":[16,16]}})";

TEST(Safetensors, ReadsTensorsInOrder) {
  for (const std::string& header : {kSoundHeader, kSoundHeader + "   ", " \n" + kSoundHeader}) {
    const auto entries = ReadSafetensors(SafetensorsBytes(header, std::string(16, 'x')));
    ASSERT_EQ(entries.size(), 3u);
    EXPECT_EQ(entries[0].name, "a");
    EXPECT_EQ(entries[0].format, WeightFormat::kF32);
    EXPECT_TRUE(entries[0].shape.empty());
    EXPECT_EQ(entries[1].name, "b");
    EXPECT_EQ(entries[1].dtype, "BF16");
    EXPECT_EQ(entries[1].format, WeightFormat::kBf16);
    EXPECT_EQ(entries[1].shape, (std::vector<int64_t>{2, 3}));
    EXPECT_EQ(entries[1].offset, 8 + header.size() + 4);
    EXPECT_EQ(entries[1].bytes, 12u);
    EXPECT_EQ(entries[2].format, std::nullopt);
  }
  EXPECT_TRUE(ReadSafetensors(SafetensorsBytes("{}", "")).empty());
}

TEST(Safetensors, IsCutOffAnywhere) {
  const std::string bytes = SafetensorsBytes(kSoundHeader, std::string(16, 'x'));
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THROW(ReadSafetensors(bytes.substr(0, size)), Error) << size;
  }
  EXPECT_THROW(ReadSafetensors(bytes + "x"), Error);
}

TEST(Safetensors, TheHeaderIsSound) {
  ExpectSafetensorsProblem("[]", "", "no JSON object");
  ExpectSafetensorsProblem("", "", "no valid JSON");
  ExpectSafetensorsProblem("{", "", "no valid JSON");
  ExpectSafetensorsProblem("{} x", "", "no valid JSON");
  ExpectSafetensorsProblem("{\"\xff\":1}", "", "no valid JSON");
  ExpectSafetensorsProblem(R"({"a":1})", "", "should be a JSON object");
  ExpectSafetensorsProblem(R"({"__metadata__":1})", "", "__metadata__ is no JSON object");
  ExpectSafetensorsProblem(R"({"__metadata__":{"a":1}})", "", "'a', which is no string");
  ExpectSafetensorsProblem(std::string(1000, '[') + std::string(1000, ']'), "", "nested");
  const std::string one = R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  ExpectSafetensorsProblem("{" + one + "," + one + "}", "x", "'a' stands there twice");
  for (const uint64_t size : {uint64_t{3}, uint64_t{100'000'001}, uint64_t{1} << 63, UINT64_MAX}) {
    ExpectThrows([&] { ReadSafetensors(Little(size, 8) + "{}"); }, ErrorCode::kInvalidModel,
                 "the header claims");
  }
}

TEST(Safetensors, TensorsAreSound) {
  const auto expect = [](const std::string& tensor, const std::string& data,
                         std::string_view message) {
    ExpectSafetensorsProblem("{\"t\":{" + tensor + "}}", data, message);
  };
  expect(R"("shape":[1],"data_offsets":[0,1])", "x", "unknown dtype ''");
  expect(R"("dtype":"F33","shape":[1],"data_offsets":[0,1])", "x", "unknown dtype 'F33'");
  expect(R"("dtype":7,"shape":[1],"data_offsets":[0,1])", "x", "'dtype' should be a string");
  expect(R"("dtype":"U8","data_offsets":[0,1])", "x", "'shape' should be a list");
  expect(R"("dtype":"U8","shape":[-1],"data_offsets":[0,1])", "x", "'shape' should be a list");
  expect(R"("dtype":"U8","shape":[1.0],"data_offsets":[0,1])", "x", "'shape' should be a list");
  expect(R"("dtype":"U8","shape":[18446744073709551615],"data_offsets":[0,1])", "x", "'shape'");
  expect(R"("dtype":"U8","shape":[1],"data_offsets":[0])", "x", "outside of the file");
  expect(R"("dtype":"U8","shape":[1],"data_offsets":[1,0])", "x", "outside of the file");
  expect(R"("dtype":"U8","shape":[2],"data_offsets":[0,2])", "x", "outside of the file");
  expect(R"("dtype":"U8","shape":[1],"data_offsets":"01")", "x", "'data_offsets' should be");
  expect(R"("dtype":"U8","shape":[1],"data_offsets":[9223372036854775807,9223372036854775807])",
         "x", "outside of the file");
  expect(R"("dtype":"F32","shape":[1],"data_offsets":[0,3])", "abc", "needs 4 bytes, but has 3");
  expect(R"("dtype":"F4","shape":[3],"data_offsets":[0,2])", "ab", "ends within a byte");
  expect(R"("dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0])", "", "overflows");
  expect(R"("dtype":"F32","shape":[0,4611686018427387904,4611686018427387904],)"
         R"("data_offsets":[0,0])",
         "", "overflows");
  EXPECT_EQ(ReadSafetensors(
                SafetensorsBytes(R"({"t":{"dtype":"F4","shape":[4],"data_offsets":[0,2]}})", "ab"))
                .size(),
            1u);
}

TEST(Safetensors, TensorsTileTheFile) {
  const auto two = [](const std::string& first, const std::string& second) {
    return R"({"a":{"dtype":"U8","shape":[2],"data_offsets":)" + first +
           R"(},"b":{"dtype":"U8","shape":[2],"data_offsets":)" + second + "}}";
  };
  EXPECT_EQ(ReadSafetensors(SafetensorsBytes(two("[2,4]", "[0,2]"), "1234")).size(), 2u);
  ExpectSafetensorsProblem(two("[0,2]", "[1,3]"), "123", "begins at byte 1");
  ExpectSafetensorsProblem(two("[0,2]", "[0,2]"), "12", "begins at byte 0");
  ExpectSafetensorsProblem(two("[0,2]", "[3,5]"), "12345", "begins at byte 3");
  ExpectSafetensorsProblem(two("[1,3]", "[3,5]"), "12345", "begins at byte 1");
  ExpectSafetensorsProblem(two("[0,2]", "[2,4]"), "12345", "1 bytes at the end");
}

}  // namespace
}  // namespace oort
