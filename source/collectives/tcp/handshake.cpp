// SPDX-License-Identifier: MIT
#include "collectives/tcp/handshake.h"

#include <poll.h>
#include <sys/random.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <type_traits>

#include "oort/error.h"

namespace oort::tcp {
namespace {

constexpr std::array<char, 8> kMagic = {'O', 'O', 'R', 'T', 'R', 'A', 'N', 'K'};
/// A machine of the other byte order reads it as another number, and is refused.
constexpr uint32_t kVersion = 1;
constexpr size_t kMostVisitors = 64;
constexpr double kHearingSeconds = 5;

static_assert(sizeof(Greeting) == 48 && sizeof(Claim) == 96 && sizeof(Answer) == 48);

template <typename T>
std::span<const std::byte> BytesOf(const T& value) {
  static_assert(std::is_trivially_copyable_v<T> && std::has_unique_object_representations_v<T>);
  return std::as_bytes(std::span(&value, 1));
}

template <typename T>
std::span<std::byte> WritableBytesOf(T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  return std::as_writable_bytes(std::span(&value, 1));
}

std::array<std::byte, 32> MakeNonce() {
  std::array<std::byte, 32> nonce;
  size_t filled = 0;
  while (filled < nonce.size()) {
    const ssize_t got = getrandom(nonce.data() + filled, nonce.size() - filled, 0);
    if (got < 0 && errno != EINTR) throw Error(ErrorCode::kIo, "there are no random numbers");
    if (got > 0) filled += static_cast<size_t>(got);
  }
  return nonce;
}

/// `side` keeps the proof of one from being the proof of the other.
Digest256 Prove(const std::string& secret, char side, const Greeting& greeting, Claim claim) {
  claim.proof = {};
  std::vector<std::byte> said(1, static_cast<std::byte>(side));
  for (const auto part : {BytesOf(greeting), BytesOf(claim)}) {
    said.insert(said.end(), part.begin(), part.end());
  }
  return HmacSha256(std::as_bytes(std::span(secret)), said);
}

std::string Explain(Verdict verdict, const Membership& self, uint32_t to) {
  const std::string who = "rank " + std::to_string(to);
  switch (verdict) {
    case Verdict::kWelcome: break;
    case Verdict::kWrongSecret: return who + " has another secret: give all ranks the same one";
    case Verdict::kWrongVersion: return who + " runs another version of Oort";
    case Verdict::kWrongGroup:
      return who + " does not expect rank " + std::to_string(self.rank) + " of " +
             std::to_string(self.ranks) + ": give all ranks the same number of ranks";
    case Verdict::kTaken:
      return "another process is rank " + std::to_string(self.rank) +
             " already: give each a number of its own";
  }
  return who + " answered nonsense";
}

}  // namespace

void Introduce(const Socket& socket, const Membership& self, uint32_t to, uint16_t port,
               Moment until) {
  const std::string where = socket.Remote().Text();
  const auto fail = [&](const std::string& why) {
    throw Error(ErrorCode::kDevice, where + ": " + why);
  };
  Greeting greeting;
  if (!socket.ReceiveAll(WritableBytesOf(greeting), until) || greeting.magic != kMagic) {
    fail("whoever listens there is no rank of Oort");
  }
  if (greeting.version != kVersion) fail(Explain(Verdict::kWrongVersion, self, to));
  Claim claim{kMagic, kVersion, self.rank, self.ranks, to, port, 0, MakeNonce(), {}};
  claim.proof = Prove(self.secret, 'c', greeting, claim);
  Answer answer;
  const bool heard = socket.SendAll(BytesOf(claim), until) &&
                     socket.ReceiveAll(WritableBytesOf(answer), until) && answer.magic == kMagic;
  if (!heard) fail("rank " + std::to_string(to) + " left before it had answered");
  if (answer.verdict != Verdict::kWelcome) fail(Explain(answer.verdict, self, to));
  const Digest256 want = Prove(self.secret, 's', greeting, claim);
  if (answer.rank != to || !EqualInConstantTime(answer.proof, want)) {
    fail(Explain(Verdict::kWrongSecret, self, to));
  }
}

Reception::Reception(const Socket& listener, const Membership& self, uint32_t first)
    : listener_(listener), self_(self), first_(first) {}

std::map<uint32_t, Arrival> Reception::Await(Moment until) {
  while (arrived_.size() < self_.ranks - first_) {
    if (Clock::now() >= until) Complain();
    std::vector<pollfd> entries = {{listener_.descriptor(), POLLIN, 0}};
    for (const Visitor& visitor : visitors_) {
      entries.push_back({visitor.socket.descriptor(), POLLIN, 0});
    }
    poll(entries.data(), entries.size(), MillisecondsUntil(until));
    std::erase_if(visitors_, [&](Visitor& visitor) { return !Hear(visitor); });
    Admit();
  }
  return std::move(arrived_);
}

void Reception::Admit() {
  while (true) {
    Visitor visitor;
    visitor.socket = listener_.Accept();
    if (!visitor.socket.open()) return;
    if (visitors_.size() >= kMostVisitors) {
      visitors_.erase(visitors_.begin());  // who came first had the most time
      ++strangers_;
    }
    visitor.greeting = {kMagic, kVersion, 0, MakeNonce()};
    visitor.until = After(kHearingSeconds);
    // A fresh connection has room for it.
    const std::span<const std::byte> greeting = BytesOf(visitor.greeting);
    if (visitor.socket.SendSome(greeting) != static_cast<ptrdiff_t>(greeting.size())) continue;
    visitors_.push_back(std::move(visitor));
  }
}

bool Reception::Hear(Visitor& visitor) {
  const std::span<std::byte> rest = WritableBytesOf(visitor.claim).subspan(visitor.received);
  const ptrdiff_t received = visitor.socket.ReceiveSome(rest);
  if (received > 0) visitor.received += static_cast<size_t>(received);
  const size_t magic = std::min(visitor.received, kMagic.size());
  const bool nonsense = std::memcmp(&visitor.claim, kMagic.data(), magic) != 0;
  if (received < 0 || nonsense || Clock::now() >= visitor.until) {
    ++strangers_;
    return false;
  }
  if (visitor.received < sizeof(Claim)) return true;
  const Claim& claim = visitor.claim;
  const Verdict verdict = Judge(visitor);
  Answer answer{kMagic, verdict, self_.rank, {}};
  if (verdict == Verdict::kWelcome) {
    answer.proof = Prove(self_.secret, 's', visitor.greeting, claim);
  } else {
    ++refused_;
  }
  const std::span<const std::byte> bytes = BytesOf(answer);
  const bool sent = visitor.socket.SendSome(bytes) == static_cast<ptrdiff_t>(bytes.size());
  if (sent && verdict == Verdict::kWelcome) {
    arrived_[claim.rank] = {std::move(visitor.socket), static_cast<uint16_t>(claim.port)};
  }
  return false;
}

Verdict Reception::Judge(const Visitor& visitor) const {
  const Claim& claim = visitor.claim;
  if (claim.version != kVersion) return Verdict::kWrongVersion;
  const Digest256 want = Prove(self_.secret, 'c', visitor.greeting, claim);
  if (!EqualInConstantTime(claim.proof, want)) return Verdict::kWrongSecret;
  const bool expected = claim.ranks == self_.ranks && claim.to == self_.rank &&
                        claim.rank >= first_ && claim.rank < self_.ranks && claim.port <= 65535;
  if (!expected) return Verdict::kWrongGroup;
  return arrived_.contains(claim.rank) ? Verdict::kTaken : Verdict::kWelcome;
}

void Reception::Complain() const {
  std::string missing;
  for (uint32_t rank = first_; rank < self_.ranks; ++rank) {
    if (arrived_.contains(rank)) continue;
    missing += (missing.empty() ? "" : ", ") + std::to_string(rank);
  }
  std::string text = "rank " + missing + " did not come to " + listener_.Local().Text();
  if (refused_ > 0) {
    text += "; " + std::to_string(refused_) +
            " were refused: another secret, version, number or count of ranks";
  }
  if (strangers_ > 0) text += "; " + std::to_string(strangers_) + " strangers came";
  throw Error(ErrorCode::kDevice, text + ": start it there with the same secret");
}

}  // namespace oort::tcp
