// SPDX-License-Identifier: MIT
// Weights from the zip of a .bin.
#include <gtest/gtest.h>

#include <cstring>

#include "core/cpu_limits.h"
#include "kit/errors.h"
#include "kit/exact.h"
#include "kit/files.h"
#include "kit/zip_builder.h"
#include "oort/log.h"
#include "oort/pnnx.h"

namespace oort {
namespace {

using testing::BuildZip;
using testing::ExpectThrows;
using testing::Little;
using testing::ZipOptions;
using testing::ZipSpec;

/// A .param whose only operator has the attributes `attributes`.
std::string ParamWith(const std::string& attributes) {
  return "7767517\n1 1\npnnx.Attribute w 0 1 0 " + attributes + "\n";
}

std::string Floats(std::initializer_list<float> values) {
  return {reinterpret_cast<const char*>(values.begin()), values.size() * sizeof(float)};
}

Graph Read(const std::string& attributes, const std::string& bin, ReadOptions options = {}) {
  return ReadPnnx(*ByteSource::Owned(ParamWith(attributes)), ByteSource::Owned(bin), options);
}

void ExpectZipProblem(const std::string& bin, std::string_view message,
                      const std::string& attributes = "@data=(2)f32") {
  ExpectThrows([&] { Read(attributes, bin); }, ErrorCode::kInvalidModel, message);
}

const std::string kTwo = Floats({1.5f, -2.0f});

Tensor Two() { return Tensor::From<float>({1.5f, -2.0f}, {2}); }

void ExpectTwo(const std::string& bin) {
  testing::ExpectSameBytes(Read("@data=(2)f32", bin).operators[0].attributes.at("data"), Two());
}

TEST(Zip, ReadsClassicAndZip64) {
  ExpectTwo(BuildZip({{"w.data", kTwo}}));
  ExpectTwo(BuildZip({{"w.data", kTwo}}, {.zip64 = true}));
  ExpectTwo(BuildZip({{"w.data", kTwo}}, {.zip64 = true, .zip64_length = 24}));
}

TEST(Zip, SkipsForeignExtraFields) {
  const std::string foreign = Little(0xcafe, 2) + Little(5, 2) + "hello";
  for (const bool zip64 : {false, true}) {
    ExpectTwo(BuildZip({{.name = "w.data",
                         .bytes = kTwo,
                         .local_extra = foreign + foreign,
                         .central_extra = foreign}},
                       {.zip64 = zip64}));
  }
  // A field that is cut short matters only to who needs it.
  ExpectTwo(BuildZip({{.name = "w.data",
                       .bytes = kTwo,
                       .local_extra = "x",
                       .central_extra = Little(7, 2) + Little(99, 2)}}));
}

TEST(Zip, FindsTheEndBehindAComment) {
  ExpectTwo(BuildZip({{"w.data", kTwo}}, {.comment = "made by hand"}));
  ExpectTwo(BuildZip({{"w.data", kTwo}}, {.comment = std::string(65535, 'x')}));
  ExpectTwo(BuildZip({{"w.data", kTwo}}, {.zip64 = true, .comment = std::string(65535, 'x')}));
  ExpectTwo(BuildZip({{"w.data", kTwo}}, {.comment = "PK\5\6 in a comment of some length"}));
  ExpectZipProblem(BuildZip({{"w.data", kTwo}}, {.after = "x"}), "end record is not at the end");
}

TEST(Zip, ReadsEntriesWithDataDescriptors) {
  ExpectTwo(
      BuildZip({{.name = "w.data", .bytes = kTwo, .flags = 8, .local_crc = 0, .local_size = 0}}));
  ExpectZipProblem(BuildZip({{.name = "w.data", .bytes = kTwo, .local_crc = 0}}), "contradicts");
}

TEST(Zip, IgnoresWhatNobodyAsksFor) {
  std::vector<std::string> messages;
  log::SetSink([&](log::Level, std::string_view message) { messages.emplace_back(message); },
               log::Level::kDebug);
  ExpectTwo(BuildZip({{"folder/", ""}, {"other.data", "xyz"}, {"w.data", kTwo}}));
  log::SetSink({});
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_EQ(messages[0], "zip entry 'other.data' belongs to no operator");
}

TEST(Zip, AttributesMustBeThereAndFit) {
  ExpectZipProblem(BuildZip({}), "attribute 'data': missing in memory");
  ExpectZipProblem(BuildZip({{"w.data", kTwo + "x"}}),
                   "(2)f32 needs 8 bytes, but the zip entry has 9");
  ExpectZipProblem(BuildZip({{"w.data", ""}}), "needs 8 bytes, but the zip entry has 0");
  const auto empty = Read("@data=(2,0)f32", BuildZip({{"w.data", ""}}));
  EXPECT_EQ(empty.operators[0].attributes.at("data").elements(), 0);
  const auto scalar = Read("@data=()f32", BuildZip({{"w.data", Floats({3})}}));
  EXPECT_EQ(scalar.operators[0].attributes.at("data").Item(), 3);
  ExpectThrows([] { ReadPnnx(*ByteSource::Owned(ParamWith("@data=()f32")), nullptr); },
               ErrorCode::kInvalidModel, "attribute 'data': no .bin was given");
  EXPECT_NO_THROW(ReadPnnx(*ByteSource::Owned(ParamWith("")), nullptr));
  EXPECT_NO_THROW(Read("", BuildZip({})));
  EXPECT_NO_THROW(Read("", BuildZip({}, {.zip64 = true})));
}

TEST(Zip, NoEntryServesTwoAttributes) {
  const std::string param =
      "7767517\n2 2\npnnx.Attribute a 0 1 0 @b.c=(2)f32\npnnx.Attribute a.b 0 1 1 @c=(2)f32\n";
  ExpectThrows(
      [&] {
        ReadPnnx(*ByteSource::Owned(param), ByteSource::Owned(BuildZip({{"a.b.c", kTwo}})));
      },
      ErrorCode::kInvalidModel, "another attribute has the same zip entry");
}

TEST(Zip, ChecksumsAreCheckedUnlessSwitchedOff) {
  const std::string bin = BuildZip({{.name = "w.data", .bytes = kTwo, .crc = 1}});
  ExpectZipProblem(bin, "CRC-32");
  EXPECT_NO_THROW(Read("@data=(2)f32", bin, {.verify_checksums = false}));
}

TEST(Zip, SharesTheMemoryWhereAlignmentAllows) {
  // Payloads at all distances from an aligned address; i8 is aligned everywhere.
  // Large ones: below 64 KiB a weight is copied.
  const std::string large(64 * 1024, '\1');
  alignas(64) static char memory[160 * 1024];
  for (size_t shift = 0; shift < 16; ++shift) {
    const std::string bin =
        BuildZip({{.name = "w.a", .bytes = large, .local_extra = std::string(shift, 'x')},
                  {.name = "w.b", .bytes = large}});
    std::memcpy(memory, bin.data(), bin.size());
    const auto source = ByteSource::Memory(std::as_bytes(std::span(memory, bin.size())));
    const Graph graph =
        ReadPnnx(*ByteSource::Owned(ParamWith("@a=(16384)f32 @b=(65536)i8")), source);
    const auto& attributes = graph.operators[0].attributes;
    const auto shared = [&](const Tensor& tensor) {
      const char* at = reinterpret_cast<const char*>(tensor.raw());
      return at >= memory && at < memory + sizeof(memory);
    };
    const size_t payload = shift + 30 + 3;
    EXPECT_EQ(shared(attributes.at("a")), payload % 4 == 0) << shift;
    EXPECT_TRUE(shared(attributes.at("b")));
    EXPECT_EQ(std::memcmp(attributes.at("a").raw(), large.data(), large.size()), 0);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(attributes.at("a").raw()) % 4, 0u);
  }
}

TEST(Zip, NormalizesBools) {
  const std::string bin = BuildZip({{"w.data", std::string("\0\1\x80\xff", 4)}});
  const Tensor want = Tensor::From<bool>({false, true, true, true}, {4});
  testing::ExpectSameBytes(Read("@data=(4)bool", bin).operators[0].attributes.at("data"), want);
  // The source itself is left alone.
  const auto source = ByteSource::Owned(bin);
  ReadPnnx(*ByteSource::Owned(ParamWith("@data=(4)bool")), source);
  std::string after(bin.size(), '\0');
  source->ReadAt(0, std::as_writable_bytes(std::span(after)));
  EXPECT_EQ(after, bin);
}

TEST(Zip, ReadsThroughAUsersReader) {
  const std::string bin = BuildZip({{"w.data", kTwo}}, {.zip64 = true});
  uint64_t bytes = 0;
  const auto reader = ByteSource::Reader(bin.size(), [&](uint64_t at, std::span<std::byte> to) {
    std::memcpy(to.data(), bin.data() + at, to.size());
    bytes += to.size();
  });
  const std::string param = ParamWith("@data=(2)f32");
  const auto text = ByteSource::Reader(param.size(), [&](uint64_t at, std::span<std::byte> to) {
    std::memcpy(to.data(), param.data() + at, to.size());
  });
  testing::ExpectSameBytes(ReadPnnx(*text, reader).operators[0].attributes.at("data"), Two());
  EXPECT_LT(bytes, 4 * bin.size());
}

TEST(Zip, ReadsFiles) {
  const testing::TemporaryFolder folder;
  testing::WriteFile(folder / "m.param", ParamWith("@data=(2)f32"));
  testing::WriteFile(folder / "m.bin", BuildZip({{"w.data", kTwo}}));
  Graph graph = ReadPnnx(folder / "m.param", folder / "m.bin");
  std::filesystem::remove(folder / "m.bin");
  testing::ExpectSameBytes(graph.operators[0].attributes.at("data"), Two());
  ExpectThrows([&] { ReadPnnx(folder / "m.param", folder / "m.bin"); }, ErrorCode::kNotFound,
               "m.bin'");
  ExpectThrows([&] { ReadPnnx(folder / "no.param", folder / "m.bin"); }, ErrorCode::kNotFound,
               "no.param'");
  ExpectThrows([&] { ReadPnnx(folder / "m.param", ""); }, ErrorCode::kInvalidModel, "no .bin");
}

/// So much that it is read in several batches, each of which is a piece for every thread.
std::string SeveralBatches() {
  return std::string(static_cast<size_t>(AvailableThreads() + 1) << 22, 'x');
}

std::string BytesAttribute(const std::string& bytes) {
  return "@a=(" + std::to_string(bytes.size()) + ")i8";
}

TEST(Zip, ReportsProgress) {
  const std::string large = SeveralBatches();
  const std::string bin = BuildZip({{"w.a", large}, {"w.b", kTwo}});
  std::vector<uint64_t> done;
  ReadOptions options;
  options.progress = [&](const Progress& progress) {
    EXPECT_EQ(progress.phase, "read");
    EXPECT_EQ(progress.total, large.size() + 8);
    done.push_back(progress.done);
  };
  Read(BytesAttribute(large) + " @b=(2)f32", bin, options);
  ASSERT_GT(done.size(), 3u);
  EXPECT_EQ(done.front(), 0u);
  EXPECT_EQ(done.back(), large.size() + 8);
  EXPECT_TRUE(std::is_sorted(done.begin(), done.end()));
}

TEST(Zip, StopsWhenAsked) {
  const std::string large = SeveralBatches(), bin = BuildZip({{"w.a", large}});
  const std::string attributes = BytesAttribute(large);
  std::stop_source stop;
  ReadOptions options{.stop = stop.get_token()};
  EXPECT_NO_THROW(Read(attributes, bin, options));
  uint64_t seen = 0;
  options.progress = [&](const Progress& progress) {
    seen = progress.done;
    if (progress.done > 0) stop.request_stop();
  };
  ExpectThrows([&] { Read(attributes, bin, options); }, ErrorCode::kCancelled, "cancelled");
  EXPECT_LT(seen, large.size());
  options.progress = nullptr;
  ExpectThrows([&] { Read(attributes, bin, options); }, ErrorCode::kCancelled, "cancelled");
}

TEST(Zip, JoinsTheProblemsOfBothFiles) {
  try {
    Read("@a=(2)f99 @b=(2)f32 @c=(2)f32", BuildZip({{.name = "w.b", .bytes = kTwo, .crc = 5},
                                                    {.name = "w.x", .bytes = "1", .flags = 1}}));
    FAIL();
  } catch (const Error& error) {
    ASSERT_EQ(error.problems().size(), 4u) << error.what();
    EXPECT_NE(error.problems()[0].message.find("'f99'"), std::string::npos);
    EXPECT_NE(error.problems()[1].message.find("'w.x': is encrypted"), std::string::npos);
    EXPECT_NE(error.problems()[2].message.find("'c': missing"), std::string::npos);
    EXPECT_NE(error.problems()[3].message.find("'b': its bytes do not fit"), std::string::npos);
  }
  // Also where the zip cannot be read at all.
  ExpectZipProblem("PK", "'f99'", "@a=(2)f99");
  ExpectZipProblem("PK", "too short for a zip", "@a=(2)f99");
}

}  // namespace
}  // namespace oort
