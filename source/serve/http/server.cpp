// SPDX-License-Identifier: MIT
// Accepts connections and ends them. Only this file and connection.* know Boost.
#include "serve/http/server.h"

#include <algorithm>
#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "oort/error.h"
#include "serve/http/connection.h"
#include "serve/http/exchange.h"
#include "serve/http/tls.h"

namespace oort::serve::http {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kTick{100};         // how exactly times are kept
constexpr std::chrono::milliseconds kAcceptPause{100};  // when the process has no descriptor left
constexpr size_t kReadBytes = 64 << 10;

}  // namespace

struct Server::Impl : ConnectionHost {
  asio::io_context io{1};
  tcp::acceptor acceptor{io};
  asio::steady_timer tick{io}, pause{io};
  uint16_t port = 0;
  std::thread thread;

  // Of the thread alone.
  std::set<std::shared_ptr<Connection>> connections;
  std::map<std::string, int> by_address;
  bool accepting = false, ticking = false;

  std::mutex mutex;  // of what follows
  std::condition_variable changed;
  int open = 0;         ///< connections
  bool closed = false;  ///< to new ones

  Impl() {
    scratch.resize(kReadBytes);
    mailbox = std::make_shared<Mailbox>([this] { asio::post(io, [this] { mailbox->Run(); }); });
  }
  void Listen();
  void Run();
  void Accept();
  void Accepted(error_code error, tcp::socket socket);
  void Welcome(tcp::socket socket);
  void Tick();
  void Remove(const std::shared_ptr<Connection>& connection, const std::string& address) override;
  void SetOpen();
  void CloseAll();
  /// A list of its own: who closes leaves the set.
  std::vector<std::shared_ptr<Connection>> All() const {
    return {connections.begin(), connections.end()};
  }
};

void Server::Impl::Listen() {
  const std::string where = options.host + ':' + std::to_string(options.port);
  error_code error;
  tcp::resolver resolver(io);
  const auto found =
      resolver.resolve(options.host, std::to_string(options.port), tcp::resolver::passive, error);
  if (error) throw Error(ErrorCode::kIo, "cannot listen on " + where + ": " + error.message());
  tcp::endpoint endpoint = found.begin()->endpoint();
  for (const auto& entry : found) {  // a name may mean both kinds of address
    if (entry.endpoint().address().is_v4()) endpoint = entry.endpoint();
  }
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (!error) port = acceptor.local_endpoint(error).port();
  if (error) throw Error(ErrorCode::kIo, "cannot listen on " + where + ": " + error.message());
}

void Server::Impl::Accept() {
  if (accepting || draining || !acceptor.is_open()) return;
  if (static_cast<int>(connections.size()) >= options.limits.connections) return;
  acceptor.async_accept([this](error_code error, tcp::socket socket) {
    accepting = false;
    Accepted(error, std::move(socket));
  });
  accepting = true;
}

void Server::Impl::Accepted(error_code error, tcp::socket socket) {
  if (error == asio::error::operation_aborted) return;
  if (error && error != asio::error::connection_aborted) {
    pause.expires_after(kAcceptPause);
    pause.async_wait([this](error_code stopped) {
      if (!stopped) Accept();
    });
    return;
  }
  if (!error) Welcome(std::move(socket));
  Accept();
}

void Server::Impl::Welcome(tcp::socket socket) {
  error_code error;
  const tcp::endpoint peer = socket.remote_endpoint(error);
  if (error) return;
  const std::string address = peer.address().to_string();
  int& count = by_address[address];
  if (!peer.address().is_loopback() && count >= options.limits.connections_per_address) return;
  socket.set_option(tcp::no_delay(true), error);
  socket.non_blocking(true, error);
  const auto connection = MakeConnection(*this, std::move(socket), address);
  connections.insert(connection);
  ++count;
  SetOpen();
  if (!ticking) Tick();
  connection->Begin();
}

void Server::Impl::Tick() {
  ticking = false;
  if (connections.empty()) return;
  // First: the next tick comes even where there is no memory for this one.
  tick.expires_after(kTick);
  tick.async_wait([this](error_code stopped) {
    if (!stopped) Tick();
  });
  ticking = true;
  mailbox->Run();  // a wake-up may have been lost
  const Clock::time_point now = Clock::now();
  for (const std::shared_ptr<Connection>& connection : All()) connection->Tick(now);
}

void Server::Impl::Run() {
  const auto work = asio::make_work_guard(io);
  bool failed = false;
  while (!io.stopped()) {
    try {
      if (failed) {
        io.run_for(kAcceptPause);
        if (!ticking) Tick();
        Accept();
        failed = false;
      }
      io.run();
    } catch (...) {
      // One connection had no memory to go on; the others do. What is to happen again and again may
      // have ended with it: it begins anew as soon as there is memory.
      failed = true;
    }
  }
}

void Server::Impl::Remove(const std::shared_ptr<Connection>& connection,
                          const std::string& address) {
  connections.erase(connection);
  const auto found = by_address.find(address);
  if (found != by_address.end() && --found->second == 0) by_address.erase(found);
  SetOpen();
  Accept();
}

void Server::Impl::SetOpen() {
  {
    const std::lock_guard lock(mutex);
    open = static_cast<int>(connections.size());
  }
  changed.notify_all();
}

void Server::Impl::CloseAll() {
  for (const std::shared_ptr<Connection>& connection : All()) connection->Close();
}

Server::Server(ServerOptions options) : impl_(std::make_unique<Impl>()) {
  impl_->options = std::move(options);
  impl_->tls = impl_->options.tls;
  impl_->Listen();
  impl_->Accept();
  impl_->thread = std::thread([impl = impl_.get()] { impl->Run(); });
}

Server::~Server() {
  asio::post(impl_->io, [impl = impl_.get()] {
    impl->draining = true;
    error_code ignored;
    impl->acceptor.close(ignored);
    impl->CloseAll();
    impl->mailbox->Close();
    impl->io.stop();
  });
  impl_->thread.join();
}

uint16_t Server::port() const { return impl_->port; }

bool Server::Drain(std::chrono::milliseconds most) {
  asio::post(impl_->io, [impl = impl_.get()] {
    impl->draining = true;
    error_code ignored;
    impl->acceptor.close(ignored);
    {
      const std::lock_guard lock(impl->mutex);
      impl->closed = true;
    }
    impl->changed.notify_all();
    // All of them first: who sees an idle one close knows that the others will.
    for (const std::shared_ptr<Connection>& connection : impl->All()) connection->CloseBehind();
    for (const std::shared_ptr<Connection>& connection : impl->All()) {
      if (connection->idle()) connection->Close();
    }
  });
  std::unique_lock lock(impl_->mutex);
  const auto all_left = [&] { return impl_->closed && impl_->open == 0; };
  if (impl_->changed.wait_for(lock, most, all_left)) return true;
  asio::post(impl_->io, [impl = impl_.get()] { impl->CloseAll(); });
  impl_->changed.wait(lock, all_left);
  return false;
}

void Server::Post(std::function<void()> work) { impl_->mailbox->Push(std::move(work)); }

void Server::SetTls(std::shared_ptr<const TlsIdentity> tls) {
  Post([impl = impl_.get(), tls = std::move(tls)] { impl->tls = tls; });
}

int Server::connections() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->open;
}

}  // namespace oort::serve::http
