// SPDX-License-Identifier: MIT
#include "collectives/tcp/socket.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>

#include "oort/error.h"

namespace oort::tcp {
namespace {

constexpr int kBacklog = 64;

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

AddressList Resolve(const Address& address, int flags) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(address.port);
  const int code = getaddrinfo(address.host.c_str(), port.c_str(), &hints, &found);
  if (code != 0) {
    throw Error(ErrorCode::kDevice,
                "there is no host '" + address.host + "': " + gai_strerror(code));
  }
  return {found, &freeaddrinfo};
}

/// Small messages leave at once, and a connection to a machine that is gone ends by itself.
void Tune(int descriptor) {
  const int on = 1;
  setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  setsockopt(descriptor, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
}

Socket MakeSocket(const addrinfo& info) {
  return Socket(socket(info.ai_family, info.ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

bool WaitFor(int descriptor, short events, Moment until) {
  while (true) {
    pollfd entry = {descriptor, events, 0};
    const int ready = poll(&entry, 1, MillisecondsUntil(until));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
    if (Clock::now() >= until) return false;
  }
}

/// Connects to one of the addresses of a name; empty or why it did not.
std::string TryConnect(const addrinfo& info, Moment until, Socket& connected) {
  Socket candidate = MakeSocket(info);
  if (!candidate.open()) return std::strerror(errno);
  const int descriptor = candidate.descriptor();
  if (connect(descriptor, info.ai_addr, info.ai_addrlen) != 0) {
    if (errno != EINPROGRESS) return std::strerror(errno);
    if (!WaitFor(descriptor, POLLOUT, until)) return "it does not answer";
    int error = 0;
    socklen_t size = sizeof(error);
    getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return std::strerror(error);
  }
  Tune(descriptor);
  connected = std::move(candidate);
  return {};
}

Address NumbersOf(const sockaddr_storage& storage, socklen_t size) {
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  const int code =
      getnameinfo(reinterpret_cast<const sockaddr*>(&storage), size, host.data(), host.size(),
                  port.data(), port.size(), NI_NUMERICHOST | NI_NUMERICSERV);
  if (code != 0) throw Error(ErrorCode::kDevice, "a connection has no address");
  Address address{host.data(), 0};
  std::from_chars(port.data(), port.data() + std::strlen(port.data()), address.port);
  return address;
}

}  // namespace

Moment After(double seconds) {
  constexpr double kFar = 1e9;
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(
                            std::chrono::duration<double>(std::clamp(seconds, 0.0, kFar)));
}

int MillisecondsUntil(Moment moment, int most) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(moment - Clock::now());
  return static_cast<int>(std::clamp<int64_t>(left.count(), 1, most));
}

Address Address::Parse(std::string_view text) {
  const size_t colon = text.rfind(':');
  Address address;
  if (colon != std::string_view::npos) {
    std::string_view host = text.substr(0, colon);
    if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
    address.host = host;
    const char *begin = text.data() + colon + 1, *end = text.data() + text.size();
    const auto parsed = std::from_chars(begin, end, address.port);
    if (!host.empty() && parsed.ec == std::errc() && parsed.ptr == end) return address;
  }
  throw Error(ErrorCode::kInvalidArgument,
              "'" + std::string(text) + "' is no HOST:PORT, such as first:7070");
}

std::string Address::Text() const {
  const bool v6 = host.find(':') != std::string::npos;
  return (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

Socket& Socket::operator=(Socket&& other) noexcept {
  if (this != &other) {
    Close();
    descriptor_ = other.Release();
  }
  return *this;
}

int Socket::Release() { return std::exchange(descriptor_, -1); }

void Socket::Close() {
  if (descriptor_ >= 0) close(descriptor_);
  descriptor_ = -1;
}

Socket Socket::Listen(const Address& address) {
  const AddressList list = Resolve(address, AI_PASSIVE);
  std::string why = "it has no address";
  for (const addrinfo* info = list.get(); info != nullptr; info = info->ai_next) {
    Socket listener = MakeSocket(*info);
    const int on = 1;
    // Else a port stays taken for a minute after its last user.
    setsockopt(listener.descriptor(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    const bool bound = listener.open() &&
                       bind(listener.descriptor(), info->ai_addr, info->ai_addrlen) == 0 &&
                       listen(listener.descriptor(), kBacklog) == 0;
    if (bound) return listener;
    why = std::strerror(errno);
  }
  throw Error(ErrorCode::kIo, "cannot listen at " + address.Text() + ": " + why);
}

Socket Socket::Connect(const Address& address, Moment until) {
  constexpr auto kPause = std::chrono::milliseconds(50);
  std::string why;
  while (true) {
    try {
      const AddressList list = Resolve(address, 0);
      for (const addrinfo* info = list.get(); info != nullptr; info = info->ai_next) {
        Socket connected;
        why = TryConnect(*info, until, connected);
        if (connected.open()) return connected;
      }
    } catch (const Error& error) {
      why = error.what();  // names of machines may need a moment, too
    }
    if (Clock::now() + kPause >= until) break;
    std::this_thread::sleep_for(kPause);
  }
  throw Error(ErrorCode::kDevice, "cannot connect to " + address.Text() + ": " + why);
}

Socket Socket::Accept() const {
  Socket accepted(accept4(descriptor_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (accepted.open()) Tune(accepted.descriptor());
  return accepted;
}

Address Socket::Local() const {
  sockaddr_storage storage = {};
  socklen_t size = sizeof(storage);
  getsockname(descriptor_, reinterpret_cast<sockaddr*>(&storage), &size);
  return NumbersOf(storage, size);
}

Address Socket::Remote() const {
  sockaddr_storage storage = {};
  socklen_t size = sizeof(storage);
  getpeername(descriptor_, reinterpret_cast<sockaddr*>(&storage), &size);
  return NumbersOf(storage, size);
}

ptrdiff_t Socket::SendSome(std::span<const std::byte> bytes) const {
  if (bytes.empty()) return 0;
  const ssize_t sent = send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (sent >= 0) return sent;
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR || errno == ENOBUFS ? 0 : -1;
}

ptrdiff_t Socket::ReceiveSome(std::span<std::byte> bytes) const {
  if (bytes.empty()) return 0;
  const ssize_t received = recv(descriptor_, bytes.data(), bytes.size(), 0);
  if (received > 0) return received;
  if (received == 0) return -1;
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? 0 : -1;
}

bool Socket::SendAll(std::span<const std::byte> bytes, Moment until) const {
  while (!bytes.empty()) {
    const ptrdiff_t sent = SendSome(bytes);
    if (sent < 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(sent));
    if (sent == 0 && !WaitFor(descriptor_, POLLOUT, until)) return false;
  }
  return true;
}

bool Socket::ReceiveAll(std::span<std::byte> bytes, Moment until) const {
  while (!bytes.empty()) {
    const ptrdiff_t received = ReceiveSome(bytes);
    if (received < 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(received));
    // Whoever sends byte by byte must not keep us for longer.
    if (!bytes.empty() && Clock::now() >= until) return false;
    if (received == 0 && !WaitFor(descriptor_, POLLIN, until)) return false;
  }
  return true;
}

}  // namespace oort::tcp
