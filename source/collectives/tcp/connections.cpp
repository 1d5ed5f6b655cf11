// SPDX-License-Identifier: MIT
#include "collectives/tcp/connections.h"

#include <array>
#include <cstring>
#include <span>

#include "collectives/tcp/handshake.h"
#include "oort/error.h"

namespace oort::tcp {
namespace {

constexpr int kMostTcpRanks = 64;
constexpr size_t kFewestSecretBytes = 16;

/// Where a rank listens for others, as rank 0 tells them.
struct Entry {
  std::array<char, 62> host{};
  uint16_t port = 0;
};

void Check(const TcpOptions& options) {
  const auto refuse = [](const std::string& why) { throw Error(ErrorCode::kInvalidArgument, why); };
  if (options.ranks < 2 || options.ranks > kMostTcpRanks) {
    refuse("ranks over TCP are 2 to " + std::to_string(kMostTcpRanks));
  }
  if (options.rank < 0 || options.rank >= options.ranks) {
    refuse("there is no rank " + std::to_string(options.rank) + " of " +
           std::to_string(options.ranks) + ": they count from 0");
  }
  if (options.secret.size() < kFewestSecretBytes) {
    refuse("ranks over TCP need a secret of 16 characters at least, the same on all of them");
  }
}

std::vector<Socket> Lead(const TcpOptions& options, const Membership& self, Moment until) {
  const Socket listener = Socket::Listen(Address::Parse(options.address));
  auto arrived = Reception(listener, self, 1).Await(until);
  std::vector<Entry> table(self.ranks);
  for (const auto& [rank, arrival] : arrived) {
    const std::string host = arrival.socket.Remote().host;
    if (host.size() >= table[rank].host.size()) {
      throw Error(ErrorCode::kDevice, "rank " + std::to_string(rank) + " has too long an address");
    }
    std::memcpy(table[rank].host.data(), host.data(), host.size());
    table[rank].port = arrival.port;
  }
  std::vector<Socket> sockets(self.ranks);
  for (auto& [rank, arrival] : arrived) {
    if (!arrival.socket.SendAll(std::as_bytes(std::span(table)), until)) {
      throw Error(ErrorCode::kDevice, "rank " + std::to_string(rank) + " left at the start");
    }
    sockets[rank] = std::move(arrival.socket);
  }
  return sockets;
}

std::vector<Socket> Join(const TcpOptions& options, const Membership& self, Moment until) {
  std::vector<Socket> sockets(self.ranks);
  sockets[0] = Socket::Connect(Address::Parse(options.address), until);
  // Others reach this rank by the address with which it reached rank 0.
  const Socket listener = Socket::Listen({sockets[0].Local().host, 0});
  Introduce(sockets[0], self, 0, listener.Local().port, until);
  std::vector<Entry> table(self.ranks);
  if (!sockets[0].ReceiveAll(std::as_writable_bytes(std::span(table)), until)) {
    throw Error(ErrorCode::kDevice, options.address + ": rank 0 left before all ranks had come");
  }
  for (uint32_t other = 1; other < self.rank; ++other) {
    table[other].host.back() = '\0';
    sockets[other] = Socket::Connect({table[other].host.data(), table[other].port}, until);
    Introduce(sockets[other], self, other, 0, until);
  }
  if (self.rank + 1 < self.ranks) {
    for (auto& [rank, arrival] : Reception(listener, self, self.rank + 1).Await(until)) {
      sockets[rank] = std::move(arrival.socket);
    }
  }
  return sockets;
}

}  // namespace

std::vector<Socket> ConnectRanks(const TcpOptions& options) {
  Check(options);
  const Membership self{static_cast<uint32_t>(options.rank), static_cast<uint32_t>(options.ranks),
                        options.secret};
  const Moment until = After(options.join);
  return self.rank == 0 ? Lead(options, self, until) : Join(options, self, until);
}

}  // namespace oort::tcp
