// SPDX-License-Identifier: MIT
// Sockets of TCP that never block, and calls that wait until a moment at most.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace oort::tcp {

using Clock = std::chrono::steady_clock;
using Moment = Clock::time_point;
/// So many seconds from now; far away for infinity.
Moment After(double seconds);
/// For poll: until then, at least 1 and at most `most`.
int MillisecondsUntil(Moment moment, int most = 100);

/// "name:7070" or "[::1]:7070". Throws kInvalidArgument for what is neither.
struct Address {
  std::string host;
  uint16_t port = 0;
  static Address Parse(std::string_view text);
  std::string Text() const;
};

/// Owns a descriptor.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  ~Socket() { Close(); }
  Socket(Socket&& other) noexcept : descriptor_(other.Release()) {}
  Socket& operator=(Socket&& other) noexcept;
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  int descriptor() const { return descriptor_; }
  bool open() const { return descriptor_ >= 0; }
  void Close();

  /// Listens there; port 0 takes one that is free. Throws kIo with the reason.
  static Socket Listen(const Address& address);
  /// Tries again and again until somebody listens there, or until that moment; then throws kDevice.
  static Socket Connect(const Address& address, Moment until);
  /// Of somebody who has come; not open where nobody has.
  Socket Accept() const;

  /// Of this end and of the other one, as numbers.
  Address Local() const;
  Address Remote() const;

  /// As many bytes as go at once; 0 where it would have to wait, -1 where the connection is over.
  ptrdiff_t SendSome(std::span<const std::byte> bytes) const;
  ptrdiff_t ReceiveSome(std::span<std::byte> bytes) const;
  /// All of them; false where the connection is over, or it takes too long.
  bool SendAll(std::span<const std::byte> bytes, Moment until) const;
  bool ReceiveAll(std::span<std::byte> bytes, Moment until) const;

 private:
  int Release();
  int descriptor_ = -1;
};

}  // namespace oort::tcp
