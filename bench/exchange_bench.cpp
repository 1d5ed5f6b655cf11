// SPDX-License-Identifier: MIT
// What the exchanges of one token take over TCP, without the model: as many sums of as many numbers
// as a model of a shape has, split fast.
//
//   bench_exchange                                            two threads over this machine's
//   loopback bench_exchange RANK RANKS HOST:PORT [HIDDEN LAYERS TOKENS]    one of several processes
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <thread>
#include <vector>

#include "collectives/tcp/socket.h"
#include "collectives/tcp/tcp_group.h"

namespace oort {
namespace {

struct TokenShape {
  size_t hidden = 4096, layers = 32, tokens = 200;  // of a model of 7B
};

/// Milliseconds of each token.
std::vector<double> ExchangeTokens(Collective& group, const TokenShape& shape) {
  std::vector<float> numbers(shape.hidden, 1.0f);
  std::vector<double> times;
  for (size_t token = 0; token < shape.tokens; ++token) {
    const auto start = std::chrono::steady_clock::now();
    std::vector<std::byte> step(200);  // about what rank 0 says of a step of one token
    group.Broadcast("the next step", step, 0);
    for (size_t sum = 0; sum < 2 * shape.layers + 1; ++sum) {
      std::fill(numbers.begin(), numbers.end(), 1.0f);
      group.AllReduce("a sum", numbers);
    }
    std::vector<float> best(2);
    group.AllReduce("the token", best);
    const auto took = std::chrono::steady_clock::now() - start;
    times.push_back(std::chrono::duration<double, std::milli>(took).count());
  }
  group.Barrier("the end");
  std::sort(times.begin(), times.end());
  return times;
}

void Report(const std::vector<double>& times, const TokenShape& shape, int ranks) {
  const double bytes =
      static_cast<double>((2 * shape.layers + 1) * shape.hidden * sizeof(float)) * (ranks - 1);
  const double median = times[times.size() / 2], wire = 1e3 * bytes / 0.125e9;
  std::printf("%d ranks, %zu sums of %zu numbers: median %.3f ms a token, 90%% below %.3f ms; ",
              ranks, 2 * shape.layers + 1, shape.hidden, median, times[times.size() * 9 / 10]);
  std::printf("%.0f %% of what 1 gigabit a second needs for the bytes alone\n",
              100 * median / wire);
}

TcpOptions OptionsOf(int rank, int ranks, const char* address) {
  TcpOptions options;
  options.rank = rank;
  options.ranks = ranks;
  options.address = address;
  options.secret = "no secret: a benchmark";
  return options;
}

void RunThreads() {
  TokenShape shape;
  shape.tokens = 20;
  const std::string address = tcp::Socket::Listen({"127.0.0.1", 0}).Local().Text();
  std::thread other([&] {
    const auto group = JoinTcp(OptionsOf(1, 2, address.c_str()));
    ExchangeTokens(*group, shape);
  });
  const auto group = JoinTcp(OptionsOf(0, 2, address.c_str()));
  Report(ExchangeTokens(*group, shape), shape, 2);
  other.join();
}

void RunRank(int argc, char** argv) {
  TokenShape shape;
  const int rank = std::atoi(argv[1]), ranks = std::atoi(argv[2]);
  if (argc > 4) shape.hidden = std::strtoul(argv[4], nullptr, 10);
  if (argc > 5) shape.layers = std::strtoul(argv[5], nullptr, 10);
  if (argc > 6) shape.tokens = std::max(1UL, std::strtoul(argv[6], nullptr, 10));
  const auto group = JoinTcp(OptionsOf(rank, ranks, argv[3]));
  const std::vector<double> times = ExchangeTokens(*group, shape);
  if (rank == 0) Report(times, shape, ranks);
}

}  // namespace
}  // namespace oort

int main(int argc, char** argv) {
  try {
    argc >= 4 ? oort::RunRank(argc, argv) : oort::RunThreads();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_exchange: %s\n", error.what());
    return 1;
  }
  return 0;
}
