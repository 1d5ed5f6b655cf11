// SPDX-License-Identifier: MIT
#include "parser/pnnx/sniff.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "core/problems.h"
#include "parser/pnnx/param.h"

namespace oort::pnnx {
namespace {

std::string Head(const ByteSource& source) {
  std::string head(static_cast<size_t>(std::min<uint64_t>(source.size(), 256)), '\0');
  source.ReadAt(0, std::as_writable_bytes(std::span(head)));
  return head;
}

bool IsHtml(std::string_view head) {
  std::string lower;
  for (const char c : head) {
    if (lower.empty() && std::isspace(static_cast<unsigned char>(c))) continue;
    lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return lower.starts_with("<!doctype") || lower.starts_with("<html") || lower.starts_with("<?xml");
}

bool IsOnnx(std::string_view head) {
  // A protobuf that begins with ir_version; the producer's name stands close behind.
  if (!head.starts_with('\x08')) return false;
  return head.find("pytorch") != head.npos || head.find("onnx") != head.npos ||
         head.find("torch") != head.npos;
}

bool IsSafetensors(std::string_view head) {
  return head.size() > 9 && head[8] == '{' && head.substr(4, 4) == std::string_view("\0\0\0\0", 4);
}

/// What the file is, if it is one of the usual mistakes; else empty.
std::string_view Foreign(std::string_view head) {
  if (head.empty()) return "it is empty";
  if (IsHtml(head)) return "it is a web page (HTML or XML): the download gave an error page";
  if (head.starts_with("version https://git-lfs")) {
    return "it is a Git LFS pointer, not the file itself: run 'git lfs pull'";
  }
  if (head.starts_with("GGUF")) return "it is a GGUF file";
  if (head.starts_with("\x93NUMPY")) return "it is a NumPy .npy file";
  if (head.starts_with("\x1f\x8b")) return "it is compressed with gzip: unpack it first";
  if (head.starts_with("\xff\xfe") || head.starts_with("\xfe\xff")) {
    return "it is UTF-16 text: save it as plain text";
  }
  if (head.starts_with(std::string_view("\xdd\x85\x76\x00", 4))) {
    return "it is ncnn's binary .param.bin: pnnx's own .pnnx.param is wanted";
  }
  if (head.starts_with("\x80\x02")) return "it is a Python pickle (an old torch checkpoint)";
  if (IsSafetensors(head)) return "it is a safetensors file";
  if (IsOnnx(head)) return "it is an ONNX model: convert it with pnnx first";
  return {};
}

[[noreturn]] void Throw(const ByteSource& source, std::string_view wanted, std::string_view what) {
  throw Error(ErrorCode::kInvalidModel,
              source.name() + " is no " + std::string(wanted) + ": " + std::string(what));
}

}  // namespace

std::string_view ForeignFile(const ByteSource& file) { return Foreign(Head(file)); }

void CheckLooksLikeParam(const ByteSource& param) {
  constexpr std::string_view kWanted = "pnnx .param";
  const std::string head = Head(param);
  if (const auto what = Foreign(head); !what.empty()) Throw(param, kWanted, what);
  if (head.starts_with("PK\x03\x04") || head.starts_with("PK\x05\x06")) {
    Throw(param, kWanted, "it is a zip, as a .pnnx.bin is: are the two files swapped?");
  }
}

void CheckLooksLikeBin(const ByteSource& bin) {
  constexpr std::string_view kWanted = "pnnx .bin (a zip)";
  const std::string head = Head(bin);
  if (const auto what = Foreign(head); !what.empty()) Throw(bin, kWanted, what);
  if (head.starts_with("PK")) return;
  if (head.starts_with(kMagic)) {
    Throw(bin, kWanted, "it begins as a .param does: are the two files swapped?");
  }
  Throw(bin, kWanted,
        "it begins with " + Quote(head.substr(0, 4)) + " instead of 'PK' (is it an ncnn .bin?)");
}

}  // namespace oort::pnnx
