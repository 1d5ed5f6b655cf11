// SPDX-License-Identifier: MIT
// How two ranks prove to each other that they know the same secret, without saying it: each signs
// what both have said, random numbers of both among it, so that nothing recorded helps anybody.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "collectives/tcp/sha256.h"
#include "collectives/tcp/socket.h"

namespace oort::tcp {

/// The first words of the side that listens. All messages have fixed sizes: nothing that a stranger
/// sends makes anybody take memory.
struct Greeting {
  std::array<char, 8> magic;
  uint32_t version, unused;
  std::array<std::byte, 32> nonce;
};

/// Of the side that connects.
struct Claim {
  std::array<char, 8> magic;
  uint32_t version, rank, ranks, to, port, unused;
  std::array<std::byte, 32> nonce;
  Digest256 proof;
};

enum class Verdict : uint32_t { kWelcome = 1, kWrongSecret, kWrongVersion, kWrongGroup, kTaken };

struct Answer {
  std::array<char, 8> magic;
  Verdict verdict;
  uint32_t rank;
  Digest256 proof;
};

/// What a rank needs to know of the group it belongs to.
struct Membership {
  uint32_t rank = 0, ranks = 1;
  std::string secret;
};

/// Says who we are to rank `to` at the other end, and hears its proof. `port`: where we listen.
/// Throws kDevice with what is wrong.
void Introduce(const Socket& socket, const Membership& self, uint32_t to, uint16_t port,
               Moment until);

/// A rank that has come, and where it listens.
struct Arrival {
  Socket socket;
  uint16_t port = 0;
};

/// Waits for ranks `first` and above at a listening socket. Strangers, those who say nothing and
/// those who say nonsense hold up nobody: each has a few seconds, and all are heard at once.
class Reception {
 public:
  Reception(const Socket& listener, const Membership& self, uint32_t first);
  /// All of them, by their numbers. Throws kDevice, and says who is missing.
  std::map<uint32_t, Arrival> Await(Moment until);

 private:
  struct Visitor {
    Socket socket;
    Greeting greeting;
    Claim claim;
    size_t received = 0;
    Moment until;
  };

  void Admit();
  /// False once this visitor needs no more hearing.
  bool Hear(Visitor& visitor);
  Verdict Judge(const Visitor& visitor) const;
  [[noreturn]] void Complain() const;

  const Socket& listener_;
  const Membership& self_;
  uint32_t first_;
  std::vector<Visitor> visitors_;
  std::map<uint32_t, Arrival> arrived_;
  size_t strangers_ = 0, refused_ = 0;
};

}  // namespace oort::tcp
