// SPDX-License-Identifier: MIT
// TLS between the bytes of a socket and those of HTTP. It touches no socket itself.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace oort::serve::http {

/// A certificate and its key. Connections keep the one that they began with. Thread contract: any
/// number of threads.
class TlsIdentity {
 public:
  /// Both are PEM; the certificate's file may hold the chain. Throws kInvalidArgument with the
  /// reason, and kUnsupported in a build without OpenSSL.
  TlsIdentity(const std::filesystem::path& certificate, const std::filesystem::path& key);
  ~TlsIdentity();
  TlsIdentity(const TlsIdentity&) = delete;
  TlsIdentity& operator=(const TlsIdentity&) = delete;

 private:
  friend class TlsSession;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The server's side of one connection. Thread contract: one thread at a time.
class TlsSession {
 public:
  explicit TlsSession(std::shared_ptr<const TlsIdentity> identity);
  ~TlsSession();
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;

  /// Takes bytes of the socket and appends to `plain` what they mean. Returns false where the peer
  /// has ended, or speaks no TLS.
  bool Receive(std::string_view bytes, std::string& plain);
  /// Bytes of a response, once the handshake is done.
  void Send(std::string_view plain);
  /// Tells the peer that no more comes.
  void End();
  /// What the socket is to send.
  std::string TakeOutput();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace oort::serve::http
