// SPDX-License-Identifier: MIT
#include "serve/http/connection.h"

#include <poll.h>

#include <boost/beast/core/buffers_range.hpp>
#include <boost/beast/http/parser.hpp>
#include <optional>
#include <string_view>
#include <utility>

namespace oort::serve::http {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using asio::ip::tcp;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;

/// As Beast's body of a string, which takes as much memory as the head of a request announces.
struct GrowingBody {
  using value_type = std::string;
  class reader {
   public:
    template <bool is_request, typename Fields>
    reader(beast::http::header<is_request, Fields>&, value_type& body) : body_(body) {}
    void init(const boost::optional<uint64_t>&, error_code& error) { error = {}; }
    template <typename Buffers>
    size_t put(const Buffers& buffers, error_code& error) {
      error = {};
      const size_t before = body_.size();
      for (const asio::const_buffer bytes : beast::buffers_range_ref(buffers)) {
        body_.append(static_cast<const char*>(bytes.data()), bytes.size());
      }
      return body_.size() - before;
    }
    void finish(error_code& error) { error = {}; }

   private:
    value_type& body_;
  };
};
using Parser = beast::http::request_parser<GrowingBody>;

constexpr std::chrono::milliseconds kLingerTime{2'000};
constexpr size_t kKeptBuffer = 4 << 10;  // between requests
// The end of what a peer sends, though there are bytes before it; errors are always told.
#ifdef POLLRDHUP
constexpr short kHangUp = POLLRDHUP;
#else
constexpr short kHangUp = 0;
#endif

class Peer : public Connection, public std::enable_shared_from_this<Peer> {
 public:
  Peer(ConnectionHost& server, tcp::socket socket, std::string address)
      : server_(server),
        limits_(server.options.limits),
        socket_(std::move(socket)),
        address_(std::move(address)) {
    if (server.tls) tls_.emplace(server.tls);
  }

  void Begin() override {
    deadline_ = Clock::now() + limits_.head_time;
    Read();
  }

  void Tick(Clock::time_point now) override {
    if (exchange_) exchange_->Tick(now);
    GoOn();
    if (!reading_ && HasLeft()) return Close();
    if (now < deadline_) return;
    switch (phase_) {
      case Phase::kHead:
        if (unread_.empty()) return Close();  // opened in advance, as browsers do
        [[fallthrough]];
      case Phase::kBody: Refuse({408, "the request came too slowly"}); break;
      case Phase::kIdle:
      case Phase::kAnswer:  // nothing of the response was taken
      case Phase::kLinger: Close(); break;
      case Phase::kClosed: break;
    }
  }

  void CloseBehind() override {
    if (exchange_) exchange_->CloseBehind();
  }
  bool idle() const override {
    return phase_ == Phase::kIdle || (phase_ == Phase::kHead && unread_.empty());
  }

  void Close() override {
    if (phase_ == Phase::kClosed) return;
    phase_ = Phase::kClosed;
    ReleaseBody();
    error_code ignored;
    if (tls_ && !writing_) {  // it is one packet, or the peer does without
      tls_->End();
      socket_.write_some(asio::buffer(tls_->TakeOutput()), ignored);
    }
    socket_.shutdown(tcp::socket::shutdown_both, ignored);
    socket_.close(ignored);
    if (exchange_) {
      exchange_->SetWake(nullptr);
      exchange_->Leave();
      Log(true);
      exchange_.reset();
    }
    server_.Remove(shared_from_this(), address_);
  }

 private:
  enum class Phase : unsigned char {
    kIdle,    ///< nothing of a request is there
    kHead,    ///< a part of its head
    kBody,    ///< the head, and a part of its body
    kAnswer,  ///< all of it; the response is not sent yet
    kLinger,  ///< the last response is sent; what the peer still sends is not looked at
    kClosed,
  };

  void Enter(Phase phase, Clock::time_point deadline = Clock::time_point::max()) {
    phase_ = phase;
    deadline_ = deadline;
    progress_ = 0;
  }

  /// Who is slow has time again for every `enough` bytes.
  void Progress(size_t bytes, size_t enough, std::chrono::milliseconds time) {
    progress_ += bytes;
    if (progress_ >= enough) Enter(phase_, Clock::now() + time);
  }

  /// Begins again what ended because there was no memory for it: waiting for the peer, or sending
  /// what nobody was told of.
  void GoOn() {
    if (phase_ == Phase::kClosed) return;
    if (!writing_ && sent_ < outgoing_.size()) {
      Write();
    } else {
      Flush();
    }
    Read();
  }

  /// Whether a peer is gone who sent more than is kept, so that nobody waits for his bytes: the end
  /// stands behind those.
  bool HasLeft() {
    if (phase_ == Phase::kClosed) return false;
    pollfd look{socket_.native_handle(), kHangUp, 0};
    return poll(&look, 1, 0) > 0;
  }

  /// The connection always waits for bytes, since that is what notices that the peer leaves. No
  /// memory is set aside for them before they come.
  void Read() {
    if (reading_ || phase_ == Phase::kClosed) return;
    // Behind a request another may come already: so much of it is kept until its turn. Tick looks
    // whether a peer who sent more is still there.
    if (phase_ == Phase::kAnswer && unread_.size() >= limits_.head.bytes) return;
    socket_.async_wait(tcp::socket::wait_read, [self = shared_from_this()](error_code error) {
      self->reading_ = false;
      self->OnReadable(error);
    });
    reading_ = true;  // not before: without memory for it, nobody would wait
  }

  void OnReadable(error_code error) {
    if (phase_ == Phase::kClosed) return;
    size_t bytes = 0;
    if (!error) bytes = socket_.read_some(asio::buffer(server_.scratch), error);
    if (error == asio::error::would_block) return Read();
    if (error) return Close();
    if (phase_ == Phase::kLinger) return Read();  // it is not looked at
    if (!tls_) {
      unread_.append(server_.scratch.data(), bytes);
    } else if (!tls_->Receive({server_.scratch.data(), bytes}, unread_)) {
      return Close();
    } else {
      SendTls();
    }
    if (phase_ == Phase::kBody) Progress(bytes, limits_.body_progress, limits_.body_time);
    Advance();
    Read();
  }

  /// Goes on with what was read.
  void Advance() {
    try {
      if (phase_ == Phase::kIdle && !unread_.empty()) {
        Enter(Phase::kHead, Clock::now() + limits_.head_time);
      }
      if (phase_ == Phase::kHead) AdvanceHead();
      if (phase_ == Phase::kBody) AdvanceBody();
    } catch (const Refusal& refusal) {
      Refuse(refusal);
    } catch (const std::exception&) {
      Refuse({503, "the server has no memory for this request"});
    }
  }

  void AdvanceHead() {
    SkipEmptyLines();
    const std::optional<size_t> end = FindHeadEnd(unread_, scanned_);
    if (!end) {
      if (unread_.size() > limits_.head.bytes) {
        throw Refusal{431, "the head of the request is too large"};
      }
      return;
    }
    scanned_ = 0;
    request_ = ParseHead(std::string_view(unread_).substr(0, *end), limits_.head);
    request_.peer = address_;
    BeginExchange(request_);
    if (server_.draining) exchange_->CloseBehind();
    if (request_.length.value_or(0) > limits_.body_bytes) {
      throw Refusal{413, "the body has more than " + std::to_string(limits_.body_bytes) + " bytes"};
    }
    if (server_.options.check) {
      if (std::optional<Response> response = server_.options.check(request_)) {
        const bool body = request_.chunked || request_.length.value_or(0) > 0;
        if (body) exchange_->CloseBehind();
        unread_.erase(0, *end);
        lingers_ = body;
        Enter(Phase::kAnswer);
        exchange_->Send(std::move(*response));
        return;
      }
    }
    parser_.emplace();
    parser_->eager(true);
    parser_->header_limit(static_cast<uint32_t>(limits_.head.bytes) + 1);
    parser_->body_limit(limits_.body_bytes);
    Enter(Phase::kBody, Clock::now() + limits_.body_time);
    AdvanceBody();
    const bool waits = EqualsIgnoringCase(request_.Get("expect"), "100-continue");
    if (phase_ == Phase::kBody && waits && !request_.http_1_0 && unread_.empty()) {
      SendBytes("HTTP/1.1 100 Continue\r\n\r\n");
    }
  }

  /// Some clients put one behind a body. All at once: who sends nothing else makes no work by it.
  void SkipEmptyLines() {
    size_t bytes = 0;
    while (std::string_view(unread_).substr(bytes).starts_with("\r\n")) bytes += 2;
    if (bytes == 0 || scanned_ > 2) return;
    unread_.erase(0, bytes);
    scanned_ = 0;
  }

  void BeginExchange(const Request& request) {
    exchange_ = std::make_shared<Exchange>(request, server_.mailbox, limits_.unsent_bytes);
    exchange_->SetWake([weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->Flush();
    });
  }

  void AdvanceBody() {
    if (!parser_) return;
    while (!unread_.empty() && !parser_->is_done()) {
      error_code error;
      const size_t used = parser_->put(asio::buffer(unread_), error);
      unread_.erase(0, used);
      CountBody();
      if (error == beast::http::error::body_limit) {
        throw Refusal{413,
                      "the body has more than " + std::to_string(limits_.body_bytes) + " bytes"};
      }
      if (error && error != beast::http::error::need_more) {
        throw Refusal{400, "the request is not well formed: " + error.message()};
      }
      if (error || used == 0) break;
    }
    if (!parser_->is_done()) {
      if (unread_.size() > limits_.head.bytes) throw Refusal{400, "a chunk has a head too large"};
      return;
    }
    request_.body = std::move(parser_->get().body());
    parser_.reset();
    ReleaseBody();
    Enter(Phase::kAnswer);
    if (unread_.empty() && unread_.capacity() > kKeptBuffer) unread_ = {};
    server_.options.handle(std::exchange(request_, {}), Reply(exchange_));
  }

  /// What came counts, not what was announced: who only announces bodies keeps nobody else's out.
  void CountBody() {
    const size_t bytes = parser_->get().body().size();
    server_.body_bytes += bytes - counted_;
    counted_ = bytes;
    if (server_.body_bytes > limits_.all_body_bytes) {
      throw Refusal{503, "the server receives too much at the moment: try again later"};
    }
  }

  void ReleaseBody() { server_.body_bytes -= std::exchange(counted_, 0); }

  /// Answers for the server itself, and closes behind it.
  void Refuse(const Refusal& refusal) {
    ReleaseBody();
    parser_.reset();
    if (!exchange_) {  // the head was not understood
      request_ = {};
      request_.method = "-";
      request_.path = "-";
      request_.peer = address_;
      BeginExchange(request_);
    }
    Enter(Phase::kAnswer);
    lingers_ = true;
    exchange_->CloseBehind();
    Response response{.status = refusal.status, .type = "text/plain", .body = refusal.message};
    if (server_.options.refuse) {
      response = server_.options.refuse(request_, refusal.status, refusal.message);
    }
    exchange_->Send(std::move(response));
  }

  /// Sends what there is of the response.
  void Flush() {
    if (!exchange_ || phase_ != Phase::kAnswer) return;
    if (exchange_->overflowed()) return Close();
    if (writing_) return;
    Exchange::Taken taken = exchange_->Take();
    if (taken.bytes.empty()) {
      if (taken.cut) return Close();
      if (taken.ended) Finish();
      return;
    }
    Enter(Phase::kAnswer, Clock::now() + limits_.write_time);
    of_response_ = taken.bytes.size();
    SendBytes(std::move(taken.bytes));
  }

  /// Nothing is being written.
  void SendBytes(std::string bytes) {
    if (tls_) {
      tls_->Send(bytes);
      bytes = tls_->TakeOutput();
    }
    outgoing_ = std::move(bytes);
    sent_ = 0;
    Write();
  }

  /// What TLS has to say for itself; while something is written it waits its turn.
  void SendTls() {
    if (writing_) return;
    std::string bytes = tls_->TakeOutput();
    if (bytes.empty()) return;
    outgoing_ = std::move(bytes);
    sent_ = 0;
    Write();
  }

  /// Most of the time the socket takes all of it at once, and nobody has to be woken later.
  void Write() {
    error_code error;
    const size_t bytes = socket_.write_some(asio::buffer(outgoing_) + sent_, error);
    if (error != asio::error::would_block) return OnWritten(error, bytes);
    socket_.async_wait(tcp::socket::wait_write, [self = shared_from_this()](error_code failed) {
      self->writing_ = false;
      return failed ? self->Close() : self->Write();
    });
    writing_ = true;
  }

  void OnWritten(error_code error, size_t bytes) {
    if (error) return Close();
    sent_ += bytes;
    const bool whole = sent_ == outgoing_.size();
    // While a body is received only "100 Continue" is written, and that has no time of its own.
    const bool answers = phase_ == Phase::kAnswer;
    if (answers && !whole) Progress(bytes, limits_.write_progress, limits_.write_time);
    if (answers && whole) Enter(Phase::kAnswer);
    if (!whole) return Write();
    outgoing_ = {};
    const size_t sent = std::exchange(of_response_, 0);
    const std::shared_ptr<Exchange> exchange = exchange_;  // whoever is told may close
    if (exchange && sent > 0) exchange->Sent(sent);
    if (phase_ == Phase::kAnswer) Flush();
    if (tls_ && phase_ != Phase::kClosed) SendTls();
  }

  /// The response is sent.
  void Finish() {
    Log(false);
    const bool goes_on = exchange_->keeps_alive() && !server_.draining;
    exchange_->SetWake(nullptr);
    exchange_.reset();
    if (goes_on) {
      Enter(Phase::kIdle, Clock::now() + limits_.idle_time);
      Advance();
      Read();
    } else if (lingers_) {
      // Closed at once, what the peer still sends would reset the connection, and he might never
      // see the response.
      error_code ignored;
      if (tls_) {
        tls_->End();
        socket_.write_some(asio::buffer(tls_->TakeOutput()), ignored);
      }
      socket_.shutdown(tcp::socket::shutdown_send, ignored);
      Enter(Phase::kLinger, Clock::now() + kLingerTime);
      unread_ = {};
      Read();
    } else {
      Close();
    }
  }

  void Log(bool cut) const {
    if (!server_.options.log) return;
    const std::string note = exchange_->note();
    const std::chrono::duration<double> time = Clock::now() - exchange_->begin;
    server_.options.log({.method = exchange_->method,
                         .path = exchange_->path,
                         .peer = exchange_->peer,
                         .note = note,
                         .status = exchange_->status(),
                         .bytes = exchange_->bytes(),
                         .seconds = time.count(),
                         .cut = cut});
  }

  ConnectionHost& server_;
  const Limits& limits_;
  tcp::socket socket_;
  const std::string address_;
  Phase phase_ = Phase::kHead;  // the first request is to come soon
  Clock::time_point deadline_ = Clock::time_point::max();
  std::string unread_;
  size_t scanned_ = 0;   ///< of the head
  size_t progress_ = 0;  ///< bytes of body or response since the deadline was set
  size_t counted_ = 0;   ///< bytes of the body among those of all
  Request request_;
  std::optional<Parser> parser_;
  std::shared_ptr<Exchange> exchange_;
  std::optional<TlsSession> tls_;
  std::string outgoing_;
  size_t sent_ = 0;
  size_t of_response_ = 0;  ///< bytes of the response that `outgoing_` brings
  bool reading_ = false, writing_ = false, lingers_ = false;
};

}  // namespace

std::shared_ptr<Connection> MakeConnection(ConnectionHost& host, tcp::socket socket,
                                           std::string address) {
  return std::make_shared<Peer>(host, std::move(socket), std::move(address));
}

}  // namespace oort::serve::http
