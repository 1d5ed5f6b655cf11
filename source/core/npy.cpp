// SPDX-License-Identifier: MIT
#include "oort/npy.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "core/dispatch.h"
#include "core/file_writer.h"
#include "core/guard.h"
#include "core/number_text.h"
#include "core/problems.h"

namespace oort {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

struct Code {
  std::string_view text;
  DType dtype;
};
constexpr Code kCodes[] = {{"f4", DType::kF32}, {"f8", DType::kF64},  {"f2", DType::kF16},
                           {"i4", DType::kI32}, {"i8", DType::kI64},  {"i2", DType::kI16},
                           {"i1", DType::kI8},  {"u1", DType::kU8},   {"b1", DType::kBool},
                           {"c8", DType::kC64}, {"c16", DType::kC128}};

struct Header {
  DType dtype = DType::kNull;
  bool fortran = false;
  Shape shape;
};

[[noreturn]] void ThrowDamaged(const std::string& what) {
  throw Error(ErrorCode::kInvalidModel, "no .npy file: " + what);
}

/// Reads the Python dictionary of the header: three keys with a string, a bool and a tuple.
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  Header Parse() {
    Expect('{');
    while (!Take('}')) {
      const std::string_view key = String();
      Expect(':');
      if (key == "descr") {
        SetOnce(seen_descr_, key);
        header_.dtype = Descr();
      } else if (key == "fortran_order") {
        SetOnce(seen_order_, key);
        header_.fortran = Bool();
      } else if (key == "shape") {
        SetOnce(seen_shape_, key);
        header_.shape = Tuple();
      } else {
        ThrowDamaged("the header has an unknown key " + Quote(key));
      }
      if (Take('}')) break;
      Expect(',');
    }
    if (!seen_descr_ || !seen_order_ || !seen_shape_) {
      ThrowDamaged("the header lacks descr, fortran_order or shape");
    }
    return header_;
  }

 private:
  static void SetOnce(bool& seen, std::string_view key) {
    if (std::exchange(seen, true)) ThrowDamaged("the header has " + Quote(key) + " twice");
  }
  void SkipBlanks() {
    while (!text_.empty() && (text_.front() == ' ' || text_.front() == '\n')) {
      text_.remove_prefix(1);
    }
  }
  bool Take(char c) {
    SkipBlanks();
    if (!text_.starts_with(c)) return false;
    text_.remove_prefix(1);
    return true;
  }
  void Expect(char c) {
    if (Take(c)) return;
    ThrowDamaged(std::string("the header should have '") + c + "' before " +
                 Quote(text_.substr(0, 20)));
  }
  std::string_view String() {
    SkipBlanks();
    const char quote = text_.empty() ? '\0' : text_.front();
    const size_t end = text_.empty() ? text_.npos : text_.find(quote, 1);
    if ((quote != '\'' && quote != '"') || end == text_.npos) {
      ThrowDamaged("the header should have a string at " + Quote(text_.substr(0, 20)));
    }
    const std::string_view string = text_.substr(1, end - 1);
    text_.remove_prefix(end + 1);
    return string;
  }
  std::string_view Word() {
    SkipBlanks();
    const size_t end = std::min(text_.find_first_of(" ,:)}\n"), text_.size());
    const std::string_view word = text_.substr(0, end);
    text_.remove_prefix(end);
    return word;
  }
  bool Bool() {
    const std::string_view word = Word();
    if (word != "True" && word != "False") {
      ThrowDamaged("fortran_order should be True or False, not " + Quote(word));
    }
    return word == "True";
  }
  DType Descr() {
    SkipBlanks();
    if (text_.starts_with('[')) {
      throw Error(ErrorCode::kUnsupported, "a .npy file of records cannot be read");
    }
    const std::string_view descr = String();
    if (descr.starts_with('>') && !descr.ends_with('1')) {
      throw Error(ErrorCode::kUnsupported,
                  "a big-endian .npy file (" + Quote(descr) + ") cannot be read");
    }
    const bool has_order = descr.find_first_of("<>|=") == 0;
    for (const Code& code : kCodes) {
      if (descr.substr(has_order) == code.text) return code.dtype;
    }
    throw Error(ErrorCode::kUnsupported, "the .npy element type " + Quote(descr) + " is unknown");
  }
  Shape Tuple() {
    Shape shape;
    Expect('(');
    while (!Take(')')) {
      std::string_view word = Word();
      if (word.ends_with('L')) word.remove_suffix(1);  // Python 2 wrote (3L, 4L)
      const auto extent = ParseInt(word);
      if (!extent || *extent < 0) ThrowDamaged("the shape has an extent " + Quote(word));
      if (shape.rank() == Shape::kMaxRank) {
        throw Error(ErrorCode::kUnsupported, "the rank of the .npy file is over the limit of 8");
      }
      shape.Append(*extent);
      if (Take(')')) break;
      Expect(',');
    }
    return shape;
  }

  std::string_view text_;
  Header header_;
  bool seen_descr_ = false, seen_order_ = false, seen_shape_ = false;
};

/// Copies elements whose first axis runs fastest into row-major order.
void FromFortran(const Tensor& from, Tensor& to) {
  VisitItemSize(to.dtype(), [&](auto tag) {
    using Item = typename decltype(tag)::Type;
    const auto* source = reinterpret_cast<const Item*>(from.raw());
    auto* target = reinterpret_cast<Item*>(to.raw());
    const Shape& shape = to.shape();
    int64_t steps[Shape::kMaxRank];
    int64_t step = 1;
    for (int axis = 0; axis < shape.rank(); ++axis) {
      steps[axis] = step;
      step *= shape[axis];
    }
    int64_t index[Shape::kMaxRank] = {};
    int64_t at = 0;
    for (int64_t i = 0; i < to.elements(); ++i) {
      target[i] = source[at];
      for (int axis = shape.rank(); axis-- > 0;) {
        at += steps[axis];
        if (++index[axis] < shape[axis]) break;
        at -= steps[axis] * shape[axis];
        index[axis] = 0;
      }
    }
  });
}

Tensor MetaOf(const Header& header) {
  try {
    return Tensor::Meta(header.dtype, header.shape);
  } catch (const Error& error) {
    ThrowDamaged(error.what());
  }
}

Tensor Read(const ByteSource& source) {
  // Magic, version, length of the header (two bytes in version 1, four later), header, elements.
  uint8_t start[12] = {};
  const auto available = static_cast<size_t>(std::min<uint64_t>(source.size(), sizeof(start)));
  source.ReadAt(0, std::as_writable_bytes(std::span(start).first(available)));
  if (std::memcmp(start, kMagic.data(), kMagic.size()) != 0) {
    ThrowDamaged(source.size() == 0 ? "it is empty" : "it does not begin with '\\x93NUMPY'");
  }
  const int version = start[6];
  if (version < 1 || version > 3) {
    throw Error(ErrorCode::kUnsupported,
                "the .npy format " + std::to_string(version) + " is unknown; 1 to 3 can be read");
  }
  const size_t header_at = version == 1 ? 10 : 12;
  uint64_t header_size = start[8] | start[9] << 8;
  if (version > 1) header_size |= uint64_t{start[10]} << 16 | uint64_t{start[11]} << 24;
  if (source.size() < header_at || header_size > source.size() - header_at) {
    ThrowDamaged("the header is cut off");
  }
  const auto buffer = source.MapOrRead(header_at, header_size);
  const Header header =
      HeaderParser({reinterpret_cast<const char*>(buffer->data()), buffer->size()}).Parse();
  const Tensor meta = MetaOf(header);
  const uint64_t left = source.size() - header_at - header_size;
  if (left != meta.bytes()) {
    ThrowDamaged(meta.ToString() + " needs " + std::to_string(meta.bytes()) + " bytes, but " +
                 std::to_string(left) + " follow the header");
  }
  // Always copied: a file of data may be written again while the tensor lives.
  Tensor tensor(header.dtype, header.shape);
  source.ReadAt(header_at + header_size, {tensor.raw(), tensor.bytes()});
  if (header.dtype == DType::kBool) {
    // Any byte but 0 means true, but no C++ bool may hold it.
    for (std::byte& b : std::span(tensor.raw(), tensor.bytes())) b = std::min(b, std::byte{1});
  }
  if (!header.fortran || tensor.rank() < 2) return tensor;
  Tensor transposed(header.dtype, header.shape);
  FromFortran(tensor, transposed);
  return transposed;
}

std::string HeaderText(const Tensor& tensor) {
  const auto code = std::find_if(std::begin(kCodes), std::end(kCodes),
                                 [&](const Code& c) { return c.dtype == tensor.dtype(); });
  if (code == std::end(kCodes)) {
    throw Error(ErrorCode::kUnsupported,
                "NumPy has no type for dtype " + std::string(Name(tensor.dtype())));
  }
  std::string shape;
  for (const int64_t extent : tensor.shape()) shape += std::to_string(extent) + ", ";
  if (tensor.rank() > 1) shape.resize(shape.size() - 2);
  if (tensor.rank() == 1) shape.pop_back();  // (3,)
  std::string text = "{'descr': '" + std::string(ItemSize(tensor.dtype()) == 1 ? "|" : "<") +
                     std::string(code->text) + "', 'fortran_order': False, 'shape': (" + shape +
                     "), }";
  const size_t unpadded = 10 + text.size() + 1;
  text.append((unpadded + 63) / 64 * 64 - unpadded, ' ');
  return text + '\n';
}

void Write(const std::filesystem::path& path, const Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_data()) {
    throw Error(ErrorCode::kInvalidArgument, "WriteNpy: the tensor has no elements");
  }
  if (tensor.dtype() == DType::kBF16) return Write(path, tensor.To(DType::kF32));
  const std::string header = HeaderText(tensor);
  FileWriter file(path);
  file.Write(kMagic);
  const char rest[] = {1, 0, static_cast<char>(header.size() & 0xff),
                       static_cast<char>(header.size() >> 8)};
  file.Write(std::string_view(rest, sizeof(rest)));
  file.Write(header);
  file.Write({tensor.raw(), tensor.bytes()});
  file.Finish(false);
  file.Publish();
}

}  // namespace

Tensor ReadNpy(const ByteSource& source) {
  return Guarded([&] {
    try {
      return Read(source);
    } catch (const Error& error) {
      throw error.WithContext(source.name() + ": ");
    }
  });
}

Tensor ReadNpy(const std::filesystem::path& path) { return ReadNpy(*ByteSource::File(path)); }

void WriteNpy(const std::filesystem::path& path, const Tensor& tensor) {
  Guarded([&] { Write(path, tensor); });
}

}  // namespace oort
