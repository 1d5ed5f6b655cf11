// SPDX-License-Identifier: MIT
// Options of commands on language models that several ranks compute.
#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <optional>

#include "cli/language.h"

namespace oort::cli {
namespace {

constexpr int kMostRanksOfProgram = 64;
constexpr std::streamsize kMostSecretBytes = 4096;

/// A whole number that is all of the text.
std::optional<int> WholeNumber(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return number;
}

/// "1/4": rank 1 of 4.
std::optional<std::pair<int, int>> RankOfRanks(std::string_view text) {
  const size_t slash = std::min(text.find('/'), text.size());
  const auto rank = WholeNumber(text.substr(0, slash));
  const auto ranks = WholeNumber(text.substr(std::min(slash + 1, text.size())));
  const bool sensible =
      rank && ranks && *rank >= 0 && *rank < *ranks && *ranks <= kMostRanksOfProgram;
  if (!sensible) return {};
  return std::pair(*rank, *ranks);
}

/// "tcp:1/2@first:7070"
std::optional<RankOptions::Tcp> TcpOf(std::string_view text) {
  constexpr std::string_view kTcp = "tcp:";
  const size_t at = text.find('@');
  if (!text.starts_with(kTcp) || at == std::string_view::npos) return {};
  const auto place = RankOfRanks(text.substr(kTcp.size(), at - kTcp.size()));
  if (!place || place->second < 2 || at + 1 == text.size()) return {};
  RankOptions::Tcp tcp;
  tcp.rank = place->first;
  tcp.ranks = place->second;
  tcp.address = text.substr(at + 1);
  return tcp;
}

std::string CheckRanks(const std::string& text) {
  const std::optional<int> count = WholeNumber(text);
  const bool known =
      text == "mpi" || TcpOf(text) || (count && *count >= 1 && *count <= kMostRanksOfProgram);
  return known ? std::string()
               : "Value " + text +
                     " is neither a number from 1 to 64 nor mpi nor tcp:RANK/RANKS@HOST:PORT";
}

std::string CheckShard(const std::string& text) {
  return RankOfRanks(text) ? std::string() : "Value " + text + " is no RANK/RANKS, such as 0/8";
}

/// What Open MPI, MPICH and their relatives tell a process of how many they have started.
bool HasManyOfMpirun() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}) {
    const char* text = std::getenv(name);
    if (text != nullptr && std::atoi(text) > 1) return true;
  }
  return false;
}

/// The file without the blanks and the end of line behind it.
std::string ReadSecret(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string secret(kMostSecretBytes + 1, '\0');
  file.read(secret.data(), static_cast<std::streamsize>(secret.size()));
  secret.resize(static_cast<size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  if (file.bad() || (!file.is_open())) {
    throw Error(ErrorCode::kIo, "cannot read the secret of the ranks from '" + path + "'");
  }
  if (secret.size() > static_cast<size_t>(kMostSecretBytes)) {
    throw Error(ErrorCode::kInvalidArgument, "'" + path + "' is too long for a secret");
  }
  secret.erase(secret.find_last_not_of(" \t\r\n") + 1);
  return secret;
}

}  // namespace

void LanguageOptions::AddRanks(CLI::App& app) {
  app.add_option("--ranks", ranks,
                 "Ranks that compute the model together: so many threads of this process, each "
                 "with --threads of its own; mpi for the processes that mpirun has started; or "
                 "tcp:1/2@first:7070 for rank 1 of 2, of which rank 0 listens at first:7070")
      ->type_name("N|mpi|tcp:…")
      ->check(CLI::Validator(CheckRanks, ""));
  app.add_option("--split", split,
                 "How ranks share a model: exact gives the bits of one rank, fast needs half as "
                 "many exchanges, pipeline gives each rank whole layers, for slow networks "
                 "(default: fast; exact with --exact)")
      ->type_name("NAME")
      ->check(CLI::IsMember({"exact", "fast", "pipeline"}));
  app.add_option("--rank-deadline", rank_deadline,
                 "Seconds that ranks wait for one that does not come before all of them end")
      ->capture_default_str()
      ->check(CLI::Range(0.1, 86400.0));
  app.add_option("--rank-secret", rank_secret,
                 "A file with the secret of ranks over TCP, the same for all of them")
      ->type_name("FILE")
      ->envname("OORT_RANK_SECRET");
  app.add_option(
         "--exchange", exchange,
         "How ranks on GPUs exchange numbers: nccl, or host for by way of the host's memory "
         "(default: nccl where all have it and each has a GPU of its own)")
      ->type_name("NAME")
      ->check(CLI::IsMember({"host", "nccl"}));
}

void LanguageOptions::AddShard(CLI::App& app) {
  app.add_option("--shard", shard,
                 "Measure what one rank of several computes, without the others: 0/8")
      ->type_name("RANK/RANKS")
      ->check(CLI::Validator(CheckShard, ""));
}

RankOptions LanguageOptions::Ranks() const {
  RankOptions options;
  options.mpi = ranks == "mpi" || (ranks.empty() && shard.empty() && HasManyOfMpirun());
  if (const auto tcp = TcpOf(ranks)) {
    if (rank_secret.empty()) {
      throw UsageError(
          "ranks over TCP need --rank-secret FILE, the same for all of them; to make one: "
          "head -c 32 /dev/urandom | base64 > FILE");
    }
    options.tcp = *tcp;
    options.tcp.secret = ReadSecret(rank_secret);
    options.tcp.join = std::max(options.tcp.join, rank_deadline);
  } else if (const auto count = WholeNumber(ranks)) {
    options.count = *count;
  }
  if (const auto lone = RankOfRanks(shard)) {
    if (!ranks.empty()) throw UsageError("--shard is one rank alone: leave out --ranks");
    options.lone = lone->first;
    options.count = lone->second;
  }
  options.pipeline = split == "pipeline";
  options.exact = split.empty() ? exact.value_or(false) : split == "exact";
  options.deadline = rank_deadline;
  options.spread = !device.NamesOne();
  if (!exchange.empty()) {
    options.exchange =
        exchange == "nccl" ? RankOptions::Exchange::kNccl : RankOptions::Exchange::kHost;
  }
  return options;
}

}  // namespace oort::cli
