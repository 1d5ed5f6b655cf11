// SPDX-License-Identifier: MIT
// Checksums, files that appear whole, and lists of problems.
#include <gtest/gtest.h>

#include "core/crc32.h"
#include "core/file_writer.h"
#include "core/problems.h"
#include "kit/errors.h"
#include "kit/files.h"
#include "kit/zip_builder.h"

namespace oort {
namespace {

using testing::TemporaryFolder;

uint32_t Crc(const std::string& text) { return Crc32(std::as_bytes(std::span(text))); }

TEST(Crc32, KnownValues) {
  EXPECT_EQ(Crc(""), 0u);
  EXPECT_EQ(Crc("a"), 0xe8b7be43u);
  EXPECT_EQ(Crc("123456789"), 0xcbf43926u);
  EXPECT_EQ(Crc("The quick brown fox jumps over the lazy dog"), 0x414fa339u);
}

TEST(Crc32, AnyLengthInAnyPieces) {
  std::string text;
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(Crc(text), testing::SlowCrc32(text)) << i;
    const auto bytes = std::as_bytes(std::span(text));
    for (size_t cut = 0; cut <= text.size(); ++cut) {
      ASSERT_EQ(Crc32(bytes.subspan(cut), Crc32(bytes.first(cut))), Crc(text));
    }
    text += static_cast<char>(i * 37 + 11);
  }
}

TEST(FileWriter, AppearsOnlyWhenPublished) {
  const TemporaryFolder folder;
  testing::WriteFile(folder / "x", "old");
  {
    FileWriter file(folder / "x");
    file.Write("half");
  }
  EXPECT_EQ(testing::FileBytes(folder / "x"), "old");
  {
    FileWriter file(folder / "x");
    const std::string large(3 << 20, 'y');
    file.Write("new");
    file.Write(large);
    EXPECT_EQ(file.offset(), large.size() + 3);
    file.Finish();
    EXPECT_EQ(testing::FileBytes(folder / "x"), "old");
    file.Publish();
    EXPECT_EQ(testing::FileBytes(folder / "x"), "new" + large);
  }
  // Nothing else is left behind.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(FileWriter, NamesWhatItCannotWrite) {
  const TemporaryFolder folder;
  testing::ExpectThrows([&] { FileWriter file(folder / "no" / "x"); }, ErrorCode::kIo, "no/x'");
  testing::ExpectThrows([&] { FileWriter file(folder.path()); }, ErrorCode::kIo, "directory");
}

TEST(Problems, ListsAHundredAndCountsTheRest) {
  ProblemList problems;
  EXPECT_NO_THROW(problems.Throw("nothing"));
  for (int i = 0; i < 250; ++i) {
    problems.Add(ErrorCode::kUnsupported, "p" + std::to_string(i), i);
  }
  EXPECT_EQ(problems.count(), 250u);
  EXPECT_EQ(problems.Listed().size(), 101u);
  EXPECT_EQ(problems.Listed()[99].message, "p99");
  EXPECT_EQ(problems.Listed()[99].line, 99);
  testing::ExpectThrows([&] { problems.Throw("x.param"); }, ErrorCode::kUnsupported,
                        "and 150 more");
}

TEST(Problems, QuotesNamesFromFiles) {
  EXPECT_EQ(Quote("conv1"), "'conv1'");
  EXPECT_EQ(Quote("a\nb\x1b\xff"), "'a\\x0ab\\x1b\\xff'");
  EXPECT_EQ(Quote(std::string(1000, 'x')), "'" + std::string(120, 'x') + "...'");
}

}  // namespace
}  // namespace oort
