// SPDX-License-Identifier: MIT
#include "parser/pnnx/weights.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <unordered_map>
#include <utility>

#include "core/crc32.h"
#include "core/host_memory.h"
#include "core/parallel.h"
#include "graph/problem_of.h"
#include "oort/log.h"
#include "parser/pnnx/sniff.h"
#include "parser/pnnx/zip.h"

namespace oort::pnnx {
namespace {

/// Large enough to be fast, small enough that a stop is heard soon.
constexpr size_t kPiece = size_t{1} << 20;
constexpr size_t kSmallestMap = size_t{64} << 10;

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
    ReadAll(matches);
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

  /// An attribute while its bytes come in.
  struct Job {
    const Match* match;
    std::shared_ptr<Buffer> buffer;
    bool mapped = false;      // the bytes are there
    bool concurrent = false;  // several threads may read them: they are not the user's reader's
    uint32_t crc = 0;
  };
  struct Piece {
    Job* job;
    size_t offset, size;
    uint32_t crc = 0;
  };

  /// What is mapped costs no copy, but only whole pages, and many weights do not lie aligned.
  Job Begin(const Match& match) {
    const ZipEntry& entry = *match.entry;
    Job job{&match, bin_.Map(entry.offset, entry.size)};
    job.concurrent = job.buffer != nullptr;
    job.mapped = job.concurrent && entry.size >= kSmallestMap &&
                 IsAligned(*job.buffer, match.tensor->dtype());
    if (!job.mapped) {
      job.buffer = AllocatePages(static_cast<size_t>(entry.size), PageUse::kPassing);
    }
    return job;
  }

  void ReadAll(const std::vector<Match>& matches) {
    std::vector<Job> jobs;
    jobs.reserve(matches.size());
    for (const Match& match : matches) jobs.push_back(Begin(match));
    TrimPages();
    std::vector<Piece> pieces;
    for (Job& job : jobs) {
      for (size_t done = 0; done < job.buffer->size(); done += kPiece) {
        pieces.push_back({&job, done, std::min(kPiece, job.buffer->size() - done)});
      }
    }
    const bool concurrent =
        std::all_of(jobs.begin(), jobs.end(), [](const Job& job) { return job.concurrent; });
    const ThreadLease lease(AvailableThreads());
    ReadPieces(pieces, concurrent ? AvailableThreads() : 1);
    for (const Piece& piece : pieces) {
      piece.job->crc = Crc32Combine(piece.job->crc, piece.crc, piece.size);
    }
    for (Job& job : jobs) Finish(job);
  }

  /// In batches: a stop is heard, and progress told, between two of them, on this thread.
  void ReadPieces(std::vector<Piece>& pieces, int threads) {
    for (size_t first = 0; first < pieces.size();) {
      CheckStop(options_.stop);
      size_t last = first, bytes = 0;
      while (last < pieces.size() && bytes < kPiece * static_cast<size_t>(threads)) {
        bytes += pieces[last++].size;
      }
      const int64_t count = static_cast<int64_t>(last - first);
      const int64_t grain = GrainOf({.bytes = 2.0 * static_cast<double>(bytes / (last - first))});
      ParallelFor(threads, count, grain, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) ReadPiece(pieces[first + static_cast<size_t>(i)]);
      });
      Report(bytes);
      first = last;
    }
    CheckStop(options_.stop);
  }

  void ReadPiece(Piece& piece) const {
    const std::span<std::byte> bytes(piece.job->buffer->data() + piece.offset, piece.size);
    if (!piece.job->mapped) bin_.ReadAt(piece.job->match->entry->offset + piece.offset, bytes);
    if (options_.verify_checksums) piece.crc = Crc32(bytes);
  }

  void Finish(Job& job) {
    const Match& match = *job.match;
    if (options_.verify_checksums && job.crc != match.entry->crc) {
      problems_.Add(
          AttributeProblem(*match.op, *match.name,
                           "its bytes do not fit their CRC-32 checksum: the file is damaged"));
      return;
    }
    const DType dtype = match.tensor->dtype();
    Tensor tensor(dtype, match.tensor->shape(), std::move(job.buffer));
    if (dtype == DType::kBool) NormalizeBools(tensor, job.mapped);
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
