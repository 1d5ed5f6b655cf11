// SPDX-License-Identifier: MIT
// The container of GGUF: good files, and a zoo of broken ones.
#include "parser/gguf/gguf.h"

#include <gtest/gtest.h>

#include <fstream>

#include "kit/errors.h"
#include "kit/files.h"
#include "kit/gguf_builder.h"

namespace oort {
namespace {

using namespace testing;  // NOLINT: the names of the builder

gguf::File ReadGgufBytes(const std::string& bytes) {
  return gguf::ReadFile(ByteSource::Owned(bytes));
}

void ExpectGgufProblem(const std::string& bytes, std::string_view message,
                       ErrorCode code = ErrorCode::kInvalidModel) {
  ExpectThrows([&] { ReadGgufBytes(bytes); }, code, message);
}

GgufSpec TwoTensors() {
  return {.pairs = {GgufText("general.architecture", "llama"), GgufU32("llama.block_count", 2)},
          .tensors = {{"a.weight", {2, 3}, 0, std::string(24, 'a')},
                      {"b.weight", {32, 2}, 3, std::string(40, 'b')}}};
}

TEST(Gguf, ReadsTensors) {
  for (const uint32_t version : {2u, 3u}) {
    GgufSpec spec = TwoTensors();
    spec.version = version;
    const gguf::File file = ReadGgufBytes(BuildGguf(spec));
    ASSERT_EQ(file.tensors.size(), 2u);
    const gguf::TensorEntry& b = file.tensors[1];
    EXPECT_EQ(b.name, "b.weight");
    EXPECT_EQ(b.rank, 2);
    EXPECT_EQ(b.dims, (std::array<int64_t, 4>{32, 2, 1, 1}));
    EXPECT_EQ(b.type->name, "q4_1");
    EXPECT_EQ(b.bytes, 40u);
    std::string bytes(40, ' ');
    file.source->ReadAt(b.offset, std::as_writable_bytes(std::span(bytes)));
    EXPECT_EQ(bytes, std::string(40, 'b'));
  }
}

TEST(Gguf, ReadsEveryTypeOfValue) {
  const std::string half = Little(0x3f000000, 4), minus = Little(0xfffffffffffffffe, 8);
  const gguf::File file =
      ReadGgufBytes(BuildGguf({.pairs = {{"u8", 0, "\xff"},
                                         {"i8", 1, "\xff"},
                                         {"u16", 2, "\xff\xff"},
                                         {"i16", 3, "\xff\xff"},
                                         {"u32", 4, "\xff\xff\xff\xff"},
                                         {"i32", 5, "\xfe\xff\xff\xff"},
                                         {"f32", 6, half},
                                         {"yes", 7, "\x02"},
                                         GgufText("text", std::string("a\0b", 3)),
                                         {"u64", 10, Little(uint64_t{1} << 40, 8)},
                                         {"huge", 10, minus},
                                         {"i64", 11, minus},
                                         {"f64", 12, Little(0x3fe0000000000000, 8)},
                                         GgufTexts("texts", {"x", "", "yz"}),
                                         GgufArray("floats", 6, {half, half}),
                                         GgufArray("shorts", 3, {"\xff\xff", Little(7, 2)}),
                                         GgufArray("bytes", 0, {"a", "b"}),
                                         GgufArray("none", 8, {}),
                                         GgufText("template", "t"),
                                         GgufText("template.x", "tx")}}));
  const gguf::Metadata& m = file.metadata;
  EXPECT_EQ(m.Integer("u8"), 255);
  EXPECT_EQ(m.Integer("i8"), -1);
  EXPECT_EQ(m.Integer("u16"), 65535);
  EXPECT_EQ(m.Integer("i16"), -1);
  EXPECT_EQ(m.Integer("u32"), 4294967295);
  EXPECT_EQ(m.Integer("i32"), -2);
  EXPECT_EQ(m.Number("f32"), 0.5);
  EXPECT_EQ(m.Number("i32"), -2.0);
  EXPECT_EQ(m.Bool("yes"), true);
  EXPECT_EQ(m.Text("text"), std::string_view("a\0b", 3));
  EXPECT_EQ(m.Integer("u64"), int64_t{1} << 40);
  EXPECT_EQ(m.Integer("i64"), -2);
  EXPECT_EQ(m.Number("f64"), 0.5);
  EXPECT_EQ(m.Texts("texts"), (std::vector<std::string_view>{"x", "", "yz"}));
  EXPECT_EQ(m.Floats("floats"), (std::vector<float>{0.5F, 0.5F}));
  EXPECT_EQ(m.Integers("shorts"), (std::vector<int64_t>{-1, 7}));
  EXPECT_EQ(m.Integers("u8"), (std::vector<int64_t>{255}));
  EXPECT_EQ(m.Bytes("bytes"), "ab");
  EXPECT_TRUE(m.Texts("none").empty());
  EXPECT_EQ(m.KeysFrom("template."), (std::vector<std::string_view>{"template.x"}));
  EXPECT_EQ(m.Integer("missing"), std::nullopt);
  EXPECT_TRUE(m.Texts("missing").empty());
  EXPECT_TRUE(m.Integers("missing").empty());
  const auto wrong = [&](auto&& read, std::string_view message) {
    ExpectThrows(read, ErrorCode::kInvalidModel, message);
  };
  wrong([&] { m.Integer("f32"); }, "'f32' is no integer");
  wrong([&] { m.Integer("huge"); }, "'huge' is no integer of 63 bits");
  wrong([&] { m.Number("text"); }, "'text' is no number");
  wrong([&] { m.Bool("u8"); }, "'u8' is no boolean");
  wrong([&] { m.Text("u8"); }, "'u8' is no string");
  wrong([&] { m.Texts("floats"); }, "'floats' is no array of strings");
  wrong([&] { m.Floats("shorts"); }, "'shorts' is no array of f32");
  wrong([&] { m.Floats("f32"); }, "'f32' is no array of f32");
  wrong([&] { m.Integers("floats"); }, "'floats' is no array of integers");
  wrong([&] { m.Integers("texts"); }, "'texts' is no array of integers");
  wrong([&] { m.Bytes("shorts"); }, "'shorts' is no array of bytes");
}

TEST(Gguf, HonoursTheAlignment) {
  GgufSpec spec = TwoTensors();
  spec.alignment = 64;
  ExpectGgufProblem(BuildGguf(spec), "should begin at 32");
  spec.pairs.push_back(GgufU32("general.alignment", 64));
  const gguf::File file = ReadGgufBytes(BuildGguf(spec));
  EXPECT_EQ(file.tensors[0].offset % 64, 0u);
  EXPECT_EQ(file.tensors[1].offset, file.tensors[0].offset + 64);
  for (const uint32_t alignment : {0u, 3u, 48u, 0x80000000u}) {
    spec.pairs.back() = GgufU32("general.alignment", alignment);
    ExpectGgufProblem(BuildGguf(spec), "no power of two");
  }
  spec.pairs.back() = GgufText("general.alignment", "32");
  ExpectGgufProblem(BuildGguf(spec), "is no integer");
}

TEST(Gguf, RefusesOtherVersions) {
  GgufSpec spec = TwoTensors();
  for (const uint32_t version : {0u, 1u, 4u, 0xffffffffu}) {
    spec.version = version;
    ExpectGgufProblem(BuildGguf(spec), "versions 2 and 3", ErrorCode::kUnsupported);
  }
  spec.version = 3u << 24;
  ExpectGgufProblem(BuildGguf(spec), "big-endian", ErrorCode::kUnsupported);
  ExpectGgufProblem("GGML" + BuildGguf(TwoTensors()).substr(4), "does not begin as a GGUF");
  ExpectGgufProblem("", "does not begin as a GGUF");
}

TEST(Gguf, IsCutOffAnywhere) {
  const std::string bytes = BuildGguf(TwoTensors());
  for (size_t size = 0; size < bytes.size(); ++size) {
    try {
      ReadGgufBytes(bytes.substr(0, size));
      ADD_FAILURE() << size << " bytes of " << bytes.size() << " were enough";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidModel) << size;
    }
  }
}

TEST(Gguf, CountsAreHeldAgainstTheFile) {
  for (const uint64_t count : {uint64_t{1} << 20, uint64_t{1} << 63, UINT64_MAX}) {
    GgufSpec spec = TwoTensors();
    spec.pair_count = count;
    ExpectGgufProblem(BuildGguf(spec), "bytes follow");
    spec = TwoTensors();
    spec.tensor_count = count;
    ExpectGgufProblem(BuildGguf(spec), "bytes follow");
    spec = TwoTensors();
    spec.pairs.push_back({"long", 8, Little(count, 8) + "x"});
    ExpectGgufProblem(BuildGguf(spec), "value of 'long'");
    for (const int type : {0, 6, 8, 10}) {
      spec.pairs.back() = {"array", 9, Little(static_cast<uint64_t>(type), 4) + Little(count, 8)};
      EXPECT_THROW(ReadGgufBytes(BuildGguf(spec)), Error) << type;
    }
  }
}

TEST(Gguf, KeysAreSound) {
  const auto expect = [](GgufPair pair, std::string_view message) {
    GgufSpec spec = TwoTensors();
    spec.pairs.push_back(std::move(pair));
    ExpectGgufProblem(BuildGguf(spec), message);
  };
  expect(GgufU32("", 1), "key 2 is empty");
  expect(GgufU32("llama.block_count", 2), "'llama.block_count' stands there twice");
  expect({"x", 13, "abcd"}, "no type 13");
  expect({"x", -1, "abcd"}, "no type -1");
  expect(GgufArray("x", 9, {}), "nested");
  expect(GgufArray("x", 77, {}), "no type 77");
}

TEST(Gguf, TensorsAreSound) {
  const auto expect = [](GgufTensor tensor, std::string_view message,
                         ErrorCode code = ErrorCode::kInvalidModel) {
    ExpectGgufProblem(BuildGguf({.tensors = {std::move(tensor)}}), message, code);
  };
  const int64_t huge = int64_t{1} << 62;
  expect({"", {1}, 0, "aaaa"}, "has 0 bytes");
  expect({std::string(64, 'x'), {1}, 0, "aaaa"}, "has 64 bytes");
  expect({"x", {1, 1, 1, 1, 1}, 0, "aaaa"}, "claims 5 dimensions");
  expect({"x", {-1}, 0, "aaaa"}, "negative dimension");
  expect({"x", {1, INT64_MIN}, 0, "aaaa"}, "negative dimension");
  expect({"x", {huge}, 0, "aaaa"}, "overflows");
  expect({"x", {huge, 4}, 24, "aaaa"}, "overflows");
  expect({"x", {0, huge, huge}, 0, ""}, "overflows");
  expect({"x", {33}, 2, std::string(18, 'a')}, "no whole blocks of q4_0");
  expect({"x", {2}, 0, "aaaa"}, "behind the end of the file");
  for (const int type : {4, 5, 9, 15, 31, 36, 43, -1, INT32_MAX}) {
    expect({"x", {256}, type, std::string(1024, 'a')}, "which is not known",
           ErrorCode::kUnsupported);
  }
  EXPECT_EQ(ReadGgufBytes(BuildGguf({.tensors = {{"x", {0, 7}, 0, ""}}})).tensors[0].bytes, 0u);
  EXPECT_EQ(ReadGgufBytes(BuildGguf({.tensors = {{"x", {}, 0, "abcd"}}})).tensors[0].bytes, 4u);
  GgufSpec twice = TwoTensors();
  twice.tensors[1].name = "a.weight";
  ExpectGgufProblem(BuildGguf(twice), "'a.weight' stands there twice");
}

TEST(Gguf, TensorsFollowOneAnother) {
  for (const uint64_t offset :
       {uint64_t{0}, uint64_t{31}, uint64_t{33}, uint64_t{64}, UINT64_MAX, uint64_t{1} << 63}) {
    GgufSpec spec = TwoTensors();
    spec.tensors[1].offset = offset;
    ExpectGgufProblem(BuildGguf(spec), "should begin at 32");
  }
}

TEST(Gguf, ReadsWhatCannotBeMapped) {
  const std::string bytes = BuildGguf(TwoTensors());
  const auto memory = ByteSource::Owned(bytes);
  const auto reader = ByteSource::Reader(
      bytes.size(), [&](uint64_t at, std::span<std::byte> to) { memory->ReadAt(at, to); });
  EXPECT_EQ(gguf::ReadFile(reader).tensors.size(), 2u);
}

/// Part `no` of `count`, with one tensor.
std::string GgufPart(int no, int count, const std::string& tensor, int total = 3) {
  return BuildGguf({.pairs = {{"split.no", 2, Little(static_cast<uint64_t>(no), 2)},
                              {"split.count", 2, Little(static_cast<uint64_t>(count), 2)},
                              {"split.tensors.count", 5, Little(static_cast<uint64_t>(total), 4)}},
                    .tensors = {{tensor, {1}, 0, "aaaa"}}});
}

TEST(GgufSplit, ReadsAllParts) {
  const TemporaryFolder folder;
  const auto first = folder / "m-00001-of-00003.gguf";
  WriteFile(first, GgufPart(0, 3, "a"));
  WriteFile(folder / "m-00002-of-00003.gguf", GgufPart(1, 3, "b"));
  ExpectThrows([&] { gguf::ReadFiles(first); }, ErrorCode::kNotFound, "m-00003-of-00003.gguf");
  WriteFile(folder / "m-00003-of-00003.gguf", GgufPart(2, 3, "c"));
  const auto parts = gguf::ReadFiles(first);
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[2].tensors[0].name, "c");
  ExpectThrows([&] { gguf::ReadFiles(folder / "m-00002-of-00003.gguf"); }, ErrorCode::kInvalidModel,
               "open the first one, ...-00001-of-00003.gguf");
}

TEST(GgufSplit, PartsAgree) {
  const auto expect = [](const std::string& first, const std::string& second,
                         std::string_view message, const std::string& name = "m-00001-of-00002") {
    const TemporaryFolder folder;
    WriteFile(folder / (name + ".gguf"), first);
    WriteFile(folder / "m-00002-of-00002.gguf", second);
    ExpectThrows([&] { gguf::ReadFiles(folder / (name + ".gguf")); }, ErrorCode::kInvalidModel,
                 message);
  };
  expect(GgufPart(0, 2, "a", 2), GgufPart(1, 3, "b"), "says that it is 1 of 3");
  expect(GgufPart(0, 2, "a", 2), GgufPart(0, 2, "b"), "says that it is 0 of 2");
  expect(GgufPart(0, 2, "a", 2), BuildGguf(TwoTensors()), "says that it is -1 of -1");
  expect(GgufPart(0, 2, "a", 2), GgufPart(1, 2, "a"), "another part has the tensor 'a' too");
  expect(GgufPart(0, 2, "a", 3), GgufPart(1, 2, "b"), "2 tensors, but should have 3");
  expect(GgufPart(0, 2, "a", 2), GgufPart(1, 2, "b"), "ends in -00001-of-00002.gguf", "other");
  expect(GgufPart(0, 3, "a", 2), GgufPart(1, 2, "b"), "ends in -00001-of-00003.gguf");
}

}  // namespace
}  // namespace oort
