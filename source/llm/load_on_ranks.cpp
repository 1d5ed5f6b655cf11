// SPDX-License-Identifier: MIT
#include "llm/load_on_ranks.h"

#include <algorithm>
#include <utility>

#include "collectives/local_collective.h"
#include "collectives/lone_collective.h"
#include "collectives/plugin.h"
#include "collectives/tcp/tcp_group.h"
#include "core/guard.h"
#include "core/version.h"
#include "llm/rank_group.h"

namespace oort {
namespace {

/// More than any machine has processors.
constexpr int kMostRanks = 1024;

void CheckRanks(const LanguageModelOptions& options) {
  const RankOptions& ranks = options.ranks;
  if (ranks.count < 1 || ranks.count > kMostRanks) {
    throw Error(ErrorCode::kInvalidArgument, "there are 1 to " + std::to_string(kMostRanks) +
                                                 " ranks, not " + std::to_string(ranks.count));
  }
  if ((ranks.count > 1 ? 1 : 0) + (ranks.mpi ? 1 : 0) + (ranks.tcp.ranks > 0 ? 1 : 0) > 1) {
    throw Error(ErrorCode::kInvalidArgument,
                "ranks are threads of this process, processes that mpirun has started, or "
                "processes over TCP: one of these");
  }
  if (ranks.pipeline && ranks.exact) {
    throw Error(ErrorCode::kInvalidArgument,
                "ranks share layers (pipeline) or products (exact), not both: the bits of both are "
                "those of one rank");
  }
  if (!(ranks.deadline > 0)) {
    throw Error(ErrorCode::kInvalidArgument, "the deadline of ranks is above 0 seconds");
  }
  const bool on_cpu = options.device.type == DeviceType::kCpu;
  if (on_cpu && ranks.exchange == RankOptions::Exchange::kNccl) {
    throw Error(ErrorCode::kInvalidArgument, "NCCL is for ranks on GPUs: name a device");
  }
}

/// What goes wrong on this rank, all others hear of.
std::shared_ptr<const LanguageModel> LoadTelling(const RankLoader& load,
                                                 const std::shared_ptr<RankGroup>& group) {
  try {
    return Guarded([&] { return load(group); });
  } catch (const Error& error) {
    group->collective().Fail(error.what());
    throw;
  }
}

void RunFollower(const RankLoader& load, std::unique_ptr<Collective> place, double deadline) {
  try {
    const auto group = std::make_shared<RankGroup>(std::move(place), deadline, false);
    LoadTelling(load, group)->Follow();
  } catch (...) {
    return;  // rank 0 knows already
  }
}

std::unique_ptr<Collective> JoinOverTcp(const RankOptions& ranks) {
  TcpOptions tcp;
  tcp.rank = ranks.tcp.rank;
  tcp.ranks = ranks.tcp.ranks;
  tcp.address = ranks.tcp.address;
  tcp.secret = ranks.tcp.secret;
  tcp.deadline = ranks.deadline;
  tcp.join = ranks.tcp.join;
  return JoinTcp(tcp);
}

/// FNV-1a.
class Digest {
 public:
  void Add(std::span<const std::byte> bytes) {
    for (const std::byte byte : bytes) {
      hash_ = (hash_ ^ std::to_integer<uint64_t>(byte)) * 1099511628211ULL;
    }
  }
  void Add(std::string_view text) {
    Add(std::as_bytes(std::span(text)));
    hash_ = (hash_ ^ 255) * 1099511628211ULL;
  }
  uint64_t hash() const { return hash_; }

 private:
  uint64_t hash_ = 14695981039346656037ULL;
};

}  // namespace

std::shared_ptr<const LanguageModel> LoadOnRanks(const LanguageModelOptions& options,
                                                 const RankLoader& load) {
  const RankOptions& ranks = options.ranks;
  if (ranks.count == 1 && !ranks.mpi && ranks.tcp.ranks == 0) return load(nullptr);
  return Guarded([&] {
    CheckRanks(options);
    if (ranks.mpi || ranks.tcp.ranks > 0) {
      auto place = ranks.mpi ? OpenMpi(ranks.deadline) : JoinOverTcp(ranks);
      return LoadTelling(load, std::make_shared<RankGroup>(std::move(place), ranks.deadline, true));
    }
    if (ranks.lone >= 0) {
      auto place = MakeLoneRank(ranks.lone, ranks.count);
      return load(std::make_shared<RankGroup>(std::move(place), ranks.deadline, false, true));
    }
    std::vector<std::unique_ptr<Collective>> places = MakeLocalGroup(ranks.count, ranks.deadline);
    auto group = std::make_shared<RankGroup>(std::move(places[0]), ranks.deadline, false);
    for (size_t rank = 1; rank < places.size(); ++rank) {
      // A std::function holds what can be copied.
      auto place = std::make_shared<std::unique_ptr<Collective>>(std::move(places[rank]));
      group->AddFollower([load, place, deadline = ranks.deadline] {
        RunFollower(load, std::move(*place), deadline);
      });
    }
    return LoadTelling(load, group);
  });
}

namespace {

const char* RankSplitName(const RankOptions& ranks) {
  return ranks.pipeline ? "pipeline" : ranks.exact ? "exact" : "fast";
}

}  // namespace

uint64_t DigestOf(const Graph& graph, const LanguageModelOptions& options) {
  constexpr size_t kSample = 64;
  Digest digest;
  digest.Add(LibraryVersion());  // another one may share models out in another way
  digest.Add(RankSplitName(options.ranks));
  for (const Operator& op : graph.operators) {
    digest.Add(op.type);
    digest.Add(op.name);
    for (const auto& [name, parameter] : op.params) digest.Add(name + "=" + parameter.text());
    for (const auto& [name, tensor] : op.attributes) {
      digest.Add(name + tensor.ToString());
      if (!tensor.has_data()) continue;
      const std::span<const std::byte> bytes(tensor.raw(), tensor.bytes());
      digest.Add(bytes.first(std::min(bytes.size(), kSample)));
    }
  }
  return digest.hash();
}

std::string SummaryOf(const LanguageModelInfo& info, const LanguageModelOptions& options) {
  return std::string("Oort ") + LibraryVersion() + ", " + info.family + " of " +
         std::to_string(info.layers) + " layers, " + std::to_string(info.weight_bytes) +
         " bytes of weights, split " + RankSplitName(options.ranks);
}

}  // namespace oort
