// SPDX-License-Identifier: MIT
// One peer of a server, from its first byte to its last. Only for server.cpp.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "serve/http/exchange.h"
#include "serve/http/server.h"
#include "serve/http/tls.h"

namespace oort::serve::http {

/// All of it runs on the server's thread.
class Connection {
 public:
  virtual ~Connection() = default;
  virtual void Begin() = 0;
  virtual void Tick(std::chrono::steady_clock::time_point now) = 0;
  /// What is asked already is answered; nothing else is.
  virtual void CloseBehind() = 0;
  virtual void Close() = 0;
  /// Nothing was asked; also where nothing ever came, as of those opened in advance.
  virtual bool idle() const = 0;
};

/// What the connections of a server share. Of its thread alone.
struct ConnectionHost {
  ServerOptions options;
  std::shared_ptr<Mailbox> mailbox;
  std::shared_ptr<const TlsIdentity> tls;  ///< null: plain HTTP
  std::vector<char> scratch;               ///< what a read fills, of any peer
  size_t body_bytes = 0;                   ///< of bodies that are being received
  bool draining = false;

  virtual ~ConnectionHost() = default;
  /// It is closed.
  virtual void Remove(const std::shared_ptr<Connection>& connection,
                      const std::string& address) = 0;
};

std::shared_ptr<Connection> MakeConnection(ConnectionHost& host,
                                           boost::asio::ip::tcp::socket socket,
                                           std::string address);

}  // namespace oort::serve::http
