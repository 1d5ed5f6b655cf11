// SPDX-License-Identifier: MIT
#include "oort/npy.h"

#include <gtest/gtest.h>

#include "kit/errors.h"
#include "kit/exact.h"
#include "kit/files.h"
#include "oort/testing.h"

namespace oort {
namespace {

using testing::FileBytes;
using testing::TemporaryFolder;

/// A file of format 1 (or 2, 3) around a header and elements.
std::string Npy(const std::string& header, const std::string& elements, int version = 1) {
  std::string file = "\x93NUMPY";
  file += static_cast<char>(version);
  file += '\0';
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) {
    file += static_cast<char>(header.size() >> (8 * i) & 0xff);
  }
  return file + header + elements;
}

std::string Header(const std::string& descr, const std::string& shape,
                   const std::string& fortran = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + fortran + ", 'shape': " + shape + ", }\n";
}

Tensor Parse(std::string file) { return ReadNpy(*ByteSource::Owned(std::move(file))); }

void ExpectNpyError(const std::string& file, ErrorCode code, std::string_view text) {
  testing::ExpectThrows([&] { Parse(file); }, code, text);
}

TEST(Npy, ReadsWhatItWrote) {
  const TemporaryFolder folder;
  for (const DType dtype :
       {DType::kF32, DType::kF64, DType::kF16, DType::kI8, DType::kU8, DType::kI16, DType::kI32,
        DType::kI64, DType::kBool, DType::kC64, DType::kC128}) {
    for (const Shape& shape : {Shape{}, Shape{3}, Shape{2, 3}, Shape{2, 0, 4}, Shape{1, 2, 1, 2}}) {
      const Tensor tensor = testing::RandomTensor(DType::kF32, shape, 5).To(dtype);
      WriteNpy(folder / "x.npy", tensor);
      const Tensor back = ReadNpy(folder / "x.npy");
      testing::ExpectSameBytes(back, tensor);
      EXPECT_EQ((FileBytes(folder / "x.npy").size() - tensor.bytes()) % 64, 0u);
    }
  }
}

TEST(Npy, WritesBFloat16AsFloat) {
  const TemporaryFolder folder;
  WriteNpy(folder / "x.npy", Tensor::From<float>({1.5f, -2.0f}, {2}).To(DType::kBF16));
  testing::ExpectSameBytes(ReadNpy(folder / "x.npy"), Tensor::From<float>({1.5f, -2.0f}, {2}));
}

TEST(Npy, RefusesWhatNumPyLacks) {
  const TemporaryFolder folder;
  EXPECT_THROW(WriteNpy(folder / "x.npy", Tensor(DType::kC32, {2})), Error);
  EXPECT_THROW(WriteNpy(folder / "x.npy", Tensor()), Error);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  EXPECT_THROW(WriteNpy(folder / "missing" / "x.npy", Tensor::Scalar(1.0f)), Error);
  EXPECT_THROW(ReadNpy(folder / "missing.npy"), Error);
}

TEST(Npy, ReadsAllVersionsAndPythons) {
  const std::string two("\1\0\2\0", 4);
  const Tensor want = Tensor::From<int16_t>({1, 2}, {2});
  for (const int version : {1, 2, 3}) {
    testing::ExpectSameBytes(Parse(Npy(Header("<i2", "(2,)"), two, version)), want);
  }
  testing::ExpectSameBytes(Parse(Npy(Header("=i2", "(2L,)"), two)), want);
  testing::ExpectSameBytes(
      Parse(Npy("{\"shape\":(2),\"fortran_order\":False,\"descr\":\"i2\"}", two)), want);
}

TEST(Npy, TransposesFortranOrder) {
  // numpy.asfortranarray([[1, 2, 3], [4, 5, 6]]) stores 1 4 2 5 3 6.
  const Tensor got = Parse(Npy(Header("|u1", "(2, 3)", "True"), "\1\4\2\5\3\6"));
  testing::ExpectSameBytes(got, Tensor::From<uint8_t>({1, 2, 3, 4, 5, 6}, {2, 3}));
  // numpy.arange(12).reshape(2, 3, 2) in Fortran order.
  const Tensor cube = Parse(
      Npy(Header("|u1", "(2, 3, 2)", "True"), std::string("\0\6\2\10\4\12\1\7\3\11\5\13", 12)));
  testing::ExpectSameBytes(cube, testing::RangeTensor(DType::kU8, {2, 3, 2}));
  EXPECT_EQ(Parse(Npy(Header("<f4", "(0, 3)", "True"), "")).elements(), 0);
}

TEST(Npy, NormalizesBools) {
  const Tensor got = Parse(Npy(Header("|b1", "(3,)"), std::string("\0\1\x80", 3)));
  testing::ExpectSameBytes(got, Tensor::From<bool>({false, true, true}, {3}));
}

TEST(Npy, RejectsWhatItCannotRead) {
  using enum ErrorCode;
  ExpectNpyError("", kInvalidModel, "empty");
  ExpectNpyError("PK\3\4", kInvalidModel, "does not begin");
  ExpectNpyError(Npy(Header(">f4", "(1,)"), "1234"), kUnsupported, "big-endian");
  ExpectNpyError(Npy(Header("<u4", "(1,)"), "1234"), kUnsupported, "'<u4'");
  ExpectNpyError(Npy(Header("|O", "(1,)"), "1234"), kUnsupported, "'|O'");
  ExpectNpyError(Npy("{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (1,)}", "1234"),
                 kUnsupported, "records");
  ExpectNpyError(Npy(Header("<f4", "(1,)"), "1234", 4), kUnsupported, "format 4");
  ExpectNpyError(Npy(Header("<f4", "(2,)"), "1234"), kInvalidModel, "needs 8 bytes, but 4");
  ExpectNpyError(Npy(Header("<f4", "(0,)"), "1"), kInvalidModel, "needs 0 bytes, but 1");
  ExpectNpyError(Npy(Header("<f4", "(1,1,1,1,1,1,1,1,1)"), "1234"), kUnsupported, "rank");
  ExpectNpyError(Npy(Header("<f4", "(4294967296,4294967296)"), "1"), kInvalidModel, "too many");
  ExpectNpyError(Npy(Header("<f4", "(0,4294967296,4294967296)"), ""), kInvalidModel, "too many");
  ExpectNpyError(Npy(Header("<f8", "(4611686018427387904,)"), "1"), kInvalidModel, "overflow");
  ExpectNpyError(Npy(Header("<f4", "(-1,)"), "1"), kInvalidModel, "'-1'");
  ExpectNpyError(Npy(Header("<f4", "(99999999999999999999,)"), "1"), kInvalidModel, "extent");
  ExpectNpyError(Npy(Header("<f4", "(1,)", "Maybe"), "1234"), kInvalidModel, "fortran_order");
  ExpectNpyError(Npy("{'descr': '<f4', 'shape': (1,)}", "1234"), kInvalidModel, "lacks");
  ExpectNpyError(Npy("{'shape': (), 'shape': ()}", "1234"), kInvalidModel, "twice");
  ExpectNpyError(Npy("{'color': 'red'}", ""), kInvalidModel, "unknown key 'color'");
}

TEST(Npy, SurvivesEveryCut) {
  for (const int version : {1, 2}) {
    const std::string whole = Npy(Header("<f4", "(2, 2)"), std::string(16, 'x'), version);
    for (size_t size = 0; size < whole.size(); ++size) {
      EXPECT_THROW(Parse(whole.substr(0, size)), Error) << size;
    }
    EXPECT_NO_THROW(Parse(whole));
    EXPECT_THROW(Parse(whole + "x"), Error);
  }
}

}  // namespace
}  // namespace oort
