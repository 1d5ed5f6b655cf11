// SPDX-License-Identifier: MIT
// An asynchronous server of HTTP/1.1: one thread for all connections, streams as cheap objects.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "serve/http/head.h"
#include "serve/http/message.h"

namespace oort::serve::http {

struct Limits {
  HeadLimits head;
  size_t body_bytes = size_t{4} << 20;
  size_t all_body_bytes = size_t{256} << 20;  ///< of bodies that are being received
  int connections = 4096;                     ///< others wait to be accepted
  int connections_per_address = 512;          ///< not of this machine's own
  std::chrono::milliseconds head_time{10'000};
  std::chrono::milliseconds body_time{10'000};  ///< for each body_progress bytes
  size_t body_progress = 4 << 10;
  std::chrono::milliseconds idle_time{30'000};  ///< between two requests
  /// Who takes fewer than write_progress bytes in it, while there are more, is cut.
  std::chrono::milliseconds write_time{60'000};
  size_t write_progress = 16 << 10;
  size_t unsent_bytes = size_t{4} << 20;  ///< of one response; beyond it the reader is cut
};

class Exchange;
class TlsIdentity;

/// The way back to who asked. Copies answer the same request; when the last one goes without an
/// end, the asker gets status 500, or a stream that is cut. Thread contract: any number of threads.
class Reply {
 public:
  explicit Reply(std::shared_ptr<Exchange> exchange);

  /// The whole response at once.
  void Send(Response response) const;
  /// The head of a response whose body comes in parts, and the first part.
  void Start(Response head) const;
  void Write(std::string_view part) const;
  /// No part follows.
  void End() const;
  /// The asker sees that the response is not whole.
  void Cut() const;

  bool started() const;
  /// Whether the asker has left, or was cut.
  bool gone() const;
  /// Bytes that the asker has not taken yet.
  size_t unsent() const;

  /// Runs on the server's thread soon, in order; not at all once the server has stopped. Many of
  /// these wake the thread once.
  void Post(std::function<void()> work) const;
  // These run on the server's thread, and go when the response has ended: what they hold may hold
  // this reply.
  /// Once, when the asker leaves before the response has ended; at once if that has happened.
  void OnGone(std::function<void()> call) const;
  /// When nothing was written for so long, again and again.
  void OnQuiet(std::chrono::milliseconds time, std::function<void()> call) const;
  /// Whenever all that was written is sent.
  void OnDrained(std::function<void()> call) const;
  /// Words for the log.
  void Note(std::string text) const;

 private:
  struct Handle;
  std::shared_ptr<Handle> handle_;
};

/// A request that is over, for the log.
struct Served {
  std::string_view method, path, peer, note;
  int status = 0;
  size_t bytes = 0;    ///< of the response
  double seconds = 0;  ///< from its head to the last byte of the response
  bool cut = false;    ///< the asker left, or the response broke off
};

// All of these are called on the server's thread and must not wait.
struct ServerOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 0;  ///< 0: one that is free
  Limits limits;
  std::shared_ptr<const TlsIdentity> tls;  ///< null: plain HTTP
  std::function<void(Request, Reply)> handle;
  /// Looks at a head before the body is read; a response that it gives is the answer.
  std::function<std::optional<Response>(const Request&)> check;
  /// The response for what the server itself refuses. Of a request whose head was not understood
  /// only the peer is known.
  std::function<Response(const Request&, int status, std::string_view message)> refuse;
  std::function<void(const Served&)> log;
};

/// Thread contract: one thread at a time.
class Server {
 public:
  struct Impl;

  /// Listens and serves. Throws kIo where the address cannot be had.
  explicit Server(ServerOptions options);
  /// Cuts what is left.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  uint16_t port() const;
  /// Takes no more connections or requests, and waits until those that it has are answered; after
  /// `most` it cuts them. Returns whether all came to their own end.
  bool Drain(std::chrono::milliseconds most);
  // These two may be called by any thread.
  /// Runs on the server's thread soon.
  void Post(std::function<void()> work);
  /// For connections from now on; those that are there keep what they have.
  void SetTls(std::shared_ptr<const TlsIdentity> tls);
  /// Connections that are open. Thread contract: any thread.
  int connections() const;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace oort::serve::http
