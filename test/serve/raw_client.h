// SPDX-License-Identifier: MIT
// A peer that sends what no proper client would.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <string_view>
#include <utility>

namespace oort::serve {

class RawClient {
 public:
  explicit RawClient(uint16_t port, int receive_buffer = 0) {
    socket_ = socket(AF_INET, SOCK_STREAM, 0);
    if (receive_buffer > 0) {
      setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer));
    }
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  }
  ~RawClient() { Close(); }
  RawClient(RawClient&& other) noexcept
      : socket_(std::exchange(other.socket_, -1)), unread_(std::move(other.unread_)) {}
  RawClient& operator=(RawClient&&) = delete;

  void Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;  // the server has closed
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
  }
  void Close() {
    if (socket_ >= 0) close(std::exchange(socket_, -1));
  }
  /// RST instead of FIN.
  void Reset() {
    const linger now = {1, 0};
    setsockopt(socket_, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    Close();
  }
  void HalfClose() { shutdown(socket_, SHUT_WR); }

  /// Whatever comes next; empty at the end, or when nothing comes for so long.
  std::string Receive(std::chrono::milliseconds most = std::chrono::seconds(60)) {
    pollfd wait{socket_, POLLIN, 0};
    if (poll(&wait, 1, static_cast<int>(most.count())) <= 0) return {};
    std::string part(64 << 10, '\0');
    const ssize_t got = recv(socket_, part.data(), part.size(), 0);
    closed_ = got <= 0;
    part.resize(got > 0 ? static_cast<size_t>(got) : 0);
    return part;
  }
  /// All until the server closes.
  std::string ReceiveAll() {
    std::string all = std::exchange(unread_, {});
    for (std::string part = Receive(); !part.empty(); part = Receive()) all += part;
    return all;
  }
  bool closed() const { return closed_; }

  struct Answer {
    int status = 0;
    std::string head, body;
    bool whole = false;
    bool Has(std::string_view text) const { return head.find(text) != std::string::npos; }
  };
  /// One response, of a length or in chunks; `body` is what the chunks hold.
  Answer ReceiveAnswer(bool to_head = false) {
    Answer answer;
    size_t end = 0;
    while ((end = unread_.find("\r\n\r\n")) == std::string::npos) {
      const std::string part = Receive();
      if (part.empty()) return answer;
      unread_ += part;
    }
    answer.head = Take(end + 4);
    if (answer.head.size() > 12) answer.status = std::stoi(answer.head.substr(9, 3));
    const size_t length = answer.head.find("\r\nContent-Length: ");
    if (to_head || answer.status == 100) {
      answer.whole = true;
    } else if (length != std::string::npos) {
      const size_t bytes = std::stoul(answer.head.substr(length + 18));
      answer.whole = Need(bytes);
      answer.body = Take(bytes);
    } else if (answer.Has("chunked")) {
      answer.whole = ReceiveChunks(answer.body);
    } else {
      answer.body = ReceiveAll();
      answer.whole = true;
    }
    return answer;
  }

 private:
  bool ReceiveChunks(std::string& body) {
    while (true) {
      size_t end = 0;
      while ((end = unread_.find("\r\n")) == std::string::npos) {
        if (!Need(unread_.size() + 1)) return false;
      }
      const size_t size = std::stoul(Take(end + 2), nullptr, 16);
      if (!Need(size + 2)) return false;
      body += Take(size);
      if (Take(2) != "\r\n") return false;
      if (size == 0) return true;
    }
  }
  bool Need(size_t bytes) {
    while (unread_.size() < bytes) {
      const std::string part = Receive();
      if (part.empty()) return false;
      unread_ += part;
    }
    return true;
  }
  std::string Take(size_t bytes) {
    std::string taken = unread_.substr(0, bytes);
    unread_.erase(0, bytes);
    return taken;
  }

  int socket_ = -1;
  bool closed_ = false;
  std::string unread_;
};

}  // namespace oort::serve
