// SPDX-License-Identifier: MIT
#include "oort/source.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <stdexcept>

#include "kit/errors.h"
#include "kit/files.h"

namespace oort {
namespace {

using testing::ExpectThrows;
using testing::TemporaryFolder;

std::string ReadAll(const ByteSource& source) {
  std::string bytes(source.size(), '\0');
  source.ReadAt(0, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

std::string Text(const Buffer& buffer) {
  return {reinterpret_cast<const char*>(buffer.data()), buffer.size()};
}

std::shared_ptr<const ByteSource> ReaderOf(const std::string& bytes) {
  return ByteSource::Reader(bytes.size(), [bytes](uint64_t offset, std::span<std::byte> to) {
    std::memcpy(to.data(), bytes.data() + offset, to.size());
  });
}

TEST(ByteSource, EveryKindReadsTheSame) {
  const TemporaryFolder folder;
  const std::string bytes = "0123456789";
  testing::WriteFile(folder / "x", bytes);
  const std::shared_ptr<const ByteSource> sources[] = {
      ByteSource::File(folder / "x"), ByteSource::Memory(std::as_bytes(std::span(bytes))),
      ByteSource::Owned(bytes), ReaderOf(bytes)};
  for (const auto& source : sources) {
    EXPECT_EQ(source->size(), 10u);
    EXPECT_EQ(ReadAll(*source), bytes);
    EXPECT_EQ(Text(*source->MapOrRead(3, 4)), "3456");
    EXPECT_EQ(source->MapOrRead(10, 0)->size(), 0u);
    char out[4];
    const auto to = std::as_writable_bytes(std::span(out));
    ExpectThrows([&] { source->ReadAt(7, to); }, ErrorCode::kIo, "past the end at 10");
    ExpectThrows([&] { source->ReadAt(UINT64_MAX, to); }, ErrorCode::kIo, "past the end");
    ExpectThrows([&] { source->MapOrRead(8, UINT64_MAX); }, ErrorCode::kIo, "past the end");
  }
}

TEST(ByteSource, MapsWithoutCopyAndKeepsTheBytes) {
  const TemporaryFolder folder;
  testing::WriteFile(folder / "x", "0123456789");
  auto source = ByteSource::File(folder / "x");
  const auto whole = source->Map(0, 10), part = source->Map(2, 3);
  ASSERT_TRUE(whole && part);
  EXPECT_TRUE(testing::IsMappedFrom("x", whole->data()));
  EXPECT_TRUE(testing::IsMappedFrom("x", part->data()));
  source.reset();
  std::filesystem::remove(folder / "x");
  EXPECT_EQ(Text(*part), "234");

  auto owned = ByteSource::Owned(std::string(1000, 'x'));
  const auto kept = owned->Map(0, 1000);
  owned.reset();
  EXPECT_EQ(Text(*kept), std::string(1000, 'x'));
  EXPECT_EQ(ReaderOf("abc")->Map(0, 1), nullptr);
}

TEST(ByteSource, WritingToAMappedFileChangesNobodyElse) {
  const TemporaryFolder folder;
  testing::WriteFile(folder / "x", "0123");
  const auto source = ByteSource::File(folder / "x");
  source->Map(0, 4)->data()[0] = std::byte{'X'};
  EXPECT_EQ(testing::FileBytes(folder / "x"), "0123");
}

TEST(ByteSource, NamesWhatCannotBeOpened) {
  const TemporaryFolder folder;
  ExpectThrows([&] { ByteSource::File(folder / "missing"); }, ErrorCode::kNotFound, "missing'");
  ExpectThrows([&] { ByteSource::File(folder.path()); }, ErrorCode::kIo, "is a directory");
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  ExpectThrows([&] { ByteSource::File(folder / "pipe"); }, ErrorCode::kIo, "no regular file");
  ExpectThrows([] { ByteSource::Reader(1, nullptr); }, ErrorCode::kInvalidArgument, "empty");
}

TEST(ByteSource, EmptyOnesAreLegal) {
  const TemporaryFolder folder;
  testing::WriteFile(folder / "x", "");
  for (const auto& source : {ByteSource::File(folder / "x"), ByteSource::Memory({}),
                             ByteSource::Owned(""), ReaderOf("")}) {
    EXPECT_EQ(source->size(), 0u);
    EXPECT_EQ(ReadAll(*source), "");
    EXPECT_EQ(source->MapOrRead(0, 0)->size(), 0u);
  }
}

TEST(ByteSource, WrapsWhatAReaderThrows) {
  const auto with = [](ByteSource::ReadFunction read) {
    char out[4];
    ByteSource::Reader(4, std::move(read), "the net")
        ->ReadAt(0, std::as_writable_bytes(std::span(out)));
  };
  ExpectThrows(
      [&] { with([](uint64_t, std::span<std::byte>) { throw std::runtime_error("no route"); }); },
      ErrorCode::kIo, "cannot read the net: no route");
  ExpectThrows([&] { with([](uint64_t, std::span<std::byte>) { throw std::bad_alloc(); }); },
               ErrorCode::kOutOfMemory, "memory");
  ExpectThrows(
      [&] {
        with([](uint64_t, std::span<std::byte>) { throw Error(ErrorCode::kCancelled, "mine"); });
      },
      ErrorCode::kCancelled, "mine");
}

}  // namespace
}  // namespace oort
