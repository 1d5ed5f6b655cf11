// SPDX-License-Identifier: MIT
#include "parser/pnnx/weights.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <unordered_map>
#include <utility>

#include "core/crc32.h"
#include "graph/problem_of.h"
#include "oort/log.h"
#include "parser/pnnx/sniff.h"
#include "parser/pnnx/zip.h"

namespace oort::pnnx {
namespace {

/// Large enough to be fast, small enough that a stop is heard soon.
constexpr size_t kPiece = size_t{4} << 20;

/// An attribute and the bytes that belong to it.
struct Match {
  Operator* op;
  const std::string* name;
  Tensor* tensor;
  const ZipEntry* entry;
};

Problem AttributeProblem(const Operator& op, const std::string& name, const std::string& message) {
  return ProblemOf(op, "attribute " + Quote(name) + ": " + message);
}

bool IsAligned(const Buffer& buffer, DType dtype) {
  const size_t alignment = IsComplex(dtype) ? ItemSize(dtype) / 2 : ItemSize(dtype);
  return reinterpret_cast<uintptr_t>(buffer.data()) % alignment == 0;
}

/// Any byte but 0 means true to torch, but no C++ bool may hold it.
void NormalizeBools(Tensor& tensor, bool mapped) {
  const auto strange = [](std::byte b) { return b > std::byte{1}; };
  const std::byte* begin = tensor.raw();
  if (std::none_of(begin, begin + tensor.bytes(), strange)) return;
  if (mapped) tensor = tensor.Clone();
  std::byte* bytes = tensor.raw();
  for (size_t i = 0; i < tensor.bytes(); ++i) bytes[i] = std::min(bytes[i], std::byte{1});
}

class Loader {
 public:
  Loader(const ByteSource& bin, const ReadOptions& options, ProblemList& problems)
      : bin_(bin), options_(options), problems_(problems) {}

  void Load(Graph& graph) {
    const std::vector<ZipEntry> entries = ReadZipDirectory(bin_, problems_);
    const std::vector<Match> matches = MatchAll(graph, entries);
    for (const Match& match : matches) total_ += match.entry->size;
    Report(0);
    for (const Match& match : matches) Read(match);
  }

 private:
  std::vector<Match> MatchAll(Graph& graph, const std::vector<ZipEntry>& entries) {
    std::unordered_map<std::string_view, const ZipEntry*> index;
    for (const ZipEntry& entry : entries) index.emplace(entry.name, &entry);
    std::vector<Match> matches;
    for (Operator& op : graph.operators) {
      for (auto& [name, tensor] : op.attributes) {
        const auto at = index.find(op.name + "." + name);
        if (at == index.end()) {
          problems_.Add(AttributeProblem(op, name, "missing in " + bin_.name()));
          continue;
        }
        const ZipEntry* entry = std::exchange(at->second, nullptr);
        if (entry == nullptr) {
          problems_.Add(
              AttributeProblem(op, name, "another attribute has the same zip entry already"));
        } else if (entry->size != tensor.bytes()) {
          problems_.Add(
              AttributeProblem(op, name,
                               tensor.ToString() + " needs " + std::to_string(tensor.bytes()) +
                                   " bytes, but the zip entry has " + std::to_string(entry->size)));
        } else {
          matches.push_back({&op, &name, &tensor, entry});
        }
      }
    }
    LogUnused(index);
    return matches;
  }

  static void LogUnused(const std::unordered_map<std::string_view, const ZipEntry*>& index) {
    if (!log::Enabled(log::Level::kDebug)) return;
    for (const auto& [name, entry] : index) {
      if (entry == nullptr) continue;
      log::Write(log::Level::kDebug, "zip entry " + Quote(name) + " belongs to no operator");
    }
  }

  void Read(const Match& match) {
    CheckStop(options_.stop);
    const ZipEntry& entry = *match.entry;
    const DType dtype = match.tensor->dtype();
    auto buffer = bin_.Map(entry.offset, entry.size);
    const bool mapped = buffer != nullptr && IsAligned(*buffer, dtype);
    uint32_t crc = 0;
    if (!mapped) buffer = AllocateHost(static_cast<size_t>(entry.size));
    for (size_t done = 0; done < buffer->size();) {
      const size_t size = std::min(kPiece, buffer->size() - done);
      const std::span<std::byte> piece(buffer->data() + done, size);
      if (!mapped) bin_.ReadAt(entry.offset + done, piece);
      if (options_.verify_checksums) crc = Crc32(piece, crc);
      done += size;
      Report(size);
      CheckStop(options_.stop);
    }
    if (options_.verify_checksums && crc != entry.crc) {
      problems_.Add(
          AttributeProblem(*match.op, *match.name,
                           "its bytes do not fit their CRC-32 checksum: the file is damaged"));
      return;
    }
    Tensor tensor(dtype, match.tensor->shape(), std::move(buffer));
    if (dtype == DType::kBool) NormalizeBools(tensor, mapped);
    *match.tensor = std::move(tensor);
  }

  void Report(uint64_t bytes) {
    done_ += bytes;
    if (options_.progress) options_.progress({"read", done_, total_});
  }

  const ByteSource& bin_;
  const ReadOptions& options_;
  ProblemList& problems_;
  uint64_t done_ = 0, total_ = 0;
};

void RequireNoAttributes(const Graph& graph, ProblemList& problems) {
  for (const Operator& op : graph.operators) {
    for (const auto& [name, tensor] : op.attributes) {
      problems.Add(AttributeProblem(op, name, "no .bin was given to read it from"));
    }
  }
}

}  // namespace

void CheckStop(const std::stop_token& stop) {
  if (stop.stop_requested()) throw Error(ErrorCode::kCancelled, "the load was cancelled");
}

void LoadWeights(const std::shared_ptr<const ByteSource>& bin, const ReadOptions& options,
                 Graph& graph, ProblemList& problems) {
  if (bin == nullptr) return RequireNoAttributes(graph, problems);
  try {
    CheckLooksLikeBin(*bin);
    Loader(*bin, options, problems).Load(graph);
  } catch (const Error& error) {
    // A zip that is damaged as a whole is one more problem beside those of the .param.
    if (error.code() != ErrorCode::kInvalidModel) throw;
    problems.Add(error.code(), error.what());
  }
}

}  // namespace oort::pnnx
