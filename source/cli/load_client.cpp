// SPDX-License-Identifier: MIT
#include "cli/load_client.h"

#include <fcntl.h>
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
#include <chrono>
#include <cstring>
#include <deque>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/command.h"
#include "oort/error.h"

namespace oort::cli {
namespace {

using LoadClock = std::chrono::steady_clock;

constexpr size_t kMostHead = 64 << 10;
constexpr size_t kMostBody = size_t{16} << 20;  // of what is kept of an answer
constexpr size_t kReceiveBytes = 64 << 10;

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return lower;
}

std::string_view Trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

/// The first address that a name means; asked once for all requests.
class Address {
 public:
  explicit Address(const ServerUrl& url) {
    addrinfo hints = {};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    const int error = getaddrinfo(url.host.c_str(), url.port.c_str(), &hints, &found);
    if (error != 0) {
      throw Error(ErrorCode::kIo, "cannot find " + url.host + ": " + gai_strerror(error) +
                                      ": correct the address of the server");
    }
    family = found->ai_family;
    length = found->ai_addrlen;
    std::memcpy(&address, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }

  sockaddr_storage address = {};
  socklen_t length = 0;
  int family = 0;
};

/// One request under way.
class LoadTalk {
 public:
  LoadTalk(LoadResult& result, std::string text) : result_(result), text_(std::move(text)) {}
  ~LoadTalk() {
    if (socket_ >= 0) close(socket_);
  }
  LoadTalk(const LoadTalk&) = delete;
  LoadTalk& operator=(const LoadTalk&) = delete;

  bool over() const { return over_; }
  pollfd Wait() const {
    return {socket_, static_cast<short>(written_ < text_.size() ? POLLIN | POLLOUT : POLLIN), 0};
  }

  void Begin(const Address& address, double now) {
    result_.sent = now;
    socket_ = socket(address.family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (socket_ < 0) return Fail(now, "no socket: " + Reason(errno) + " (raise ulimit -n)");
    const int yes = 1;
    setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
    if (connect(socket_, address.get(), address.length) != 0 && errno != EINPROGRESS) {
      Fail(now, "cannot connect: " + Reason(errno));
    }
  }

  void Advance(short events, double now, std::array<char, kReceiveBytes>& buffer) {
    if (written_ < text_.size() && (events & (POLLOUT | POLLERR | POLLHUP)) != 0) Write(now);
    if (!over_ && (events & (POLLIN | POLLHUP)) != 0) Read(now, buffer);
  }

  void Fail(double now, std::string why) {
    if (over_) return;
    result_.error = std::move(why);
    Finish(now);
  }

 private:
  static std::string Reason(int error) { return std::strerror(error); }

  void Finish(double now) {
    result_.end = now;
    result_.status = reader_.status();
    over_ = true;
    if (socket_ >= 0) close(std::exchange(socket_, -1));
  }

  void Write(double now) {
    if (written_ == 0) {
      int error = 0;
      socklen_t size = sizeof(error);
      getsockopt(socket_, SOL_SOCKET, SO_ERROR, &error, &size);
      if (error != 0) return Fail(now, "cannot connect: " + Reason(error));
    }
    const ssize_t count =
        send(socket_, text_.data() + written_, text_.size() - written_, MSG_NOSIGNAL);
    if (count > 0) written_ += static_cast<size_t>(count);
    // A server that refuses closes early, and what it says is still to be read.
    if (count < 0 && errno != EAGAIN && errno != EINTR) written_ = text_.size();
  }

  void Read(double now, std::array<char, kReceiveBytes>& buffer) {
    const ssize_t count = recv(socket_, buffer.data(), buffer.size(), 0);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (count < 0) return Fail(now, "the connection broke: " + Reason(errno));
    if (count == 0) {
      if (!reader_.Close()) return Fail(now, "the server closed before the answer was whole");
      return Whole(now);
    }
    const std::string_view bytes(buffer.data(), static_cast<size_t>(count));
    if (!reader_.Feed(bytes, body_)) return Fail(now, "the answer is no HTTP");
    if (body_.size() > kMostBody) return Fail(now, "the answer is too long");
    if (reader_.is_events() && reader_.status() == 200) ReadEvents(now);
    if (!over_ && reader_.done()) Whole(now);
  }

  void ReadEvents(double now) {
    size_t begin = 0;
    for (size_t end; (end = body_.find('\n', begin)) != std::string::npos; begin = end + 1) {
      std::string_view line(body_.data() + begin, end - begin);
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (line.starts_with("data:")) ReadEvent(Trim(line.substr(5)), now);
      if (over_) return;
    }
    body_.erase(0, begin);
  }

  void ReadEvent(std::string_view data, double now) {
    if (data == "[DONE]") {
      ended_ = true;
      return;
    }
    const auto json = nlohmann::json::parse(data, nullptr, false);
    if (!json.is_object()) return Fail(now, "an event holds no JSON");
    if (const auto error = json.find("error"); error != json.end() && !error->is_null()) {
      return Fail(now, ErrorText(*error));
    }
    ReadUsage(json);
    if (!HasText(json)) return;
    if (result_.first < 0) {
      result_.first = now;
    } else {
      result_.gaps.push_back(now - last_);
    }
    last_ = now;
  }

  static bool HasText(const nlohmann::json& json) {
    const auto choices = json.find("choices");
    if (choices == json.end() || !choices->is_array()) return false;
    const auto text = [](const nlohmann::json& from, const char* name) {
      const auto found = from.find(name);
      return found != from.end() && found->is_string() &&
             !found->get_ref<const std::string&>().empty();
    };
    for (const auto& choice : *choices) {
      if (!choice.is_object()) continue;
      if (text(choice, "text")) return true;
      const auto delta = choice.find("delta");
      if (delta == choice.end() || !delta->is_object()) continue;
      if (text(*delta, "content") || text(*delta, "reasoning_content")) return true;
    }
    return false;
  }

  void ReadUsage(const nlohmann::json& json) {
    const auto usage = json.find("usage");
    if (usage == json.end() || !usage->is_object()) return;
    const auto count = [](const nlohmann::json& from, const char* name, int64_t& into) {
      const auto found = from.find(name);
      if (found != from.end() && found->is_number_integer()) into = found->get<int64_t>();
    };
    count(*usage, "prompt_tokens", result_.prompt_tokens);
    count(*usage, "completion_tokens", result_.new_tokens);
    if (const auto details = usage->find("prompt_tokens_details");
        details != usage->end() && details->is_object()) {
      count(*details, "cached_tokens", result_.cached_tokens);
    }
  }

  static std::string ErrorText(const nlohmann::json& error) {
    if (error.is_string()) return error.get<std::string>();
    const auto message = error.is_object() ? error.find("message") : error.end();
    if (error.is_object() && message != error.end() && message->is_string()) {
      return message->get<std::string>();
    }
    return "the server failed";
  }

  void Whole(double now) {
    if (reader_.status() != 200) {
      const auto json = nlohmann::json::parse(body_, nullptr, false);
      std::string text = "status " + std::to_string(reader_.status());
      if (json.is_object() && json.contains("error")) text += ": " + ErrorText(json["error"]);
      return Fail(now, std::move(text));
    }
    if (!reader_.is_events()) {
      result_.body = std::move(body_);
    } else if (!ended_) {
      return Fail(now, "the stream ended without its last event");
    }
    Finish(now);
  }

  LoadResult& result_;
  const std::string text_;
  size_t written_ = 0;
  int socket_ = -1;
  ResponseReader reader_;
  std::string body_;
  double last_ = 0;
  bool ended_ = false, over_ = false;
};

}  // namespace

ServerUrl ServerUrl::Parse(const std::string& text) {
  const auto wrong = [&](const std::string& why) {
    return UsageError("'" + text + "' " + why +
                      ": write http://HOST:PORT, as http://127.0.0.1:8080");
  };
  if (text.starts_with("https://")) {
    throw wrong("wants TLS, which this client does not speak; ask the port behind it");
  }
  std::string_view rest = text;
  if (rest.starts_with("http://")) rest.remove_prefix(7);
  const size_t slash = std::min(rest.find('/'), rest.size());
  std::string_view place = rest.substr(0, slash);
  ServerUrl url;
  url.prefix = rest.substr(slash);
  while (url.prefix.ends_with('/')) url.prefix.pop_back();
  if (url.prefix.ends_with("/v1")) url.prefix.resize(url.prefix.size() - 3);
  const bool plain = std::ranges::all_of(text, [](char c) { return c > 0x20 && c < 0x7F; });
  if (!plain || text.find_first_of("?#@") != std::string::npos) throw wrong("is no address");
  if (place.starts_with('[')) {  // IPv6
    const size_t end = place.find(']');
    if (end == std::string_view::npos) throw wrong("is no address");
    url.host = place.substr(1, end - 1);
    place.remove_prefix(end + 1);
  } else {
    const size_t colon = std::min(place.find(':'), place.size());
    url.host = place.substr(0, colon);
    place.remove_prefix(colon);
  }
  url.port = place.empty() ? "80" : std::string(place.substr(1));
  unsigned port = 0;
  const auto [end, error] =
      std::from_chars(url.port.data(), url.port.data() + url.port.size(), port);
  if (url.host.empty() || error != std::errc() || end != url.port.data() + url.port.size() ||
      port == 0 || port > 65535 || (!place.empty() && place.front() != ':')) {
    throw wrong("is no address");
  }
  return url;
}

std::string ServerUrl::ToString() const {
  const bool v6 = host.find(':') != std::string::npos;
  return "http://" + (v6 ? '[' + host + ']' : host) + ':' + port + prefix;
}

std::string RequestText(const ServerUrl& url, std::string_view path, std::string_view key,
                        std::string_view body) {
  std::string text = body.empty() ? "GET " : "POST ";
  const bool v6 = url.host.find(':') != std::string::npos;
  text.append(url.prefix).append(path).append(" HTTP/1.1\r\nHost: ");
  text.append(v6 ? '[' + url.host + ']' : url.host).append(":").append(url.port);
  text.append("\r\nConnection: close\r\nAccept: */*\r\nUser-Agent: oort-bench-serve\r\n");
  if (!key.empty()) text.append("Authorization: Bearer ").append(key).append("\r\n");
  if (!body.empty()) {
    text.append("Content-Type: application/json\r\nContent-Length: ");
    text.append(std::to_string(body.size())).append("\r\n");
  }
  return text.append("\r\n").append(body);
}

std::vector<LoadResult> RunLoad(const LoadPlan& plan) {
  const Address address(plan.url);
  const auto begin = LoadClock::now();
  const auto now = [&] { return std::chrono::duration<double>(LoadClock::now() - begin).count(); };
  std::deque<LoadResult> results;  // talks point into it, so none of them may move
  size_t total = plan.requests;
  std::vector<std::unique_ptr<LoadTalk>> talks;
  std::vector<pollfd> waits;
  std::vector<double> ends;
  const auto buffer = std::make_unique<std::array<char, kReceiveBytes>>();
  while (true) {
    double time = now();
    if (plan.seconds > 0 && time >= plan.seconds) total = results.size();
    const auto due = [&](size_t i) { return plan.due.empty() ? time : plan.due[i]; };
    while (results.size() < total && talks.size() < plan.most_open && due(results.size()) <= time) {
      const size_t i = results.size();
      LoadResult& result = results.emplace_back();
      result.due = due(i);
      talks.push_back(std::make_unique<LoadTalk>(result, plan.text(i)));
      time = now();
      ends.push_back(time + plan.most_seconds);
      talks.back()->Begin(address, time);
    }
    if (talks.empty() && results.size() >= total) {
      return {std::make_move_iterator(results.begin()), std::make_move_iterator(results.end())};
    }
    waits.clear();
    for (const auto& talk : talks) waits.push_back(talk->Wait());
    double most = 0.1;
    if (results.size() < total && talks.size() < plan.most_open) most = due(results.size()) - time;
    const bool over = std::ranges::any_of(talks, [](const auto& talk) { return talk->over(); });
    const int timeout = over ? 0 : static_cast<int>(std::clamp(most, 0.0, 0.1) * 1e3);
    poll(waits.data(), waits.size(), timeout);
    time = now();
    for (size_t i = 0; i < talks.size(); ++i) {
      if (waits[i].revents != 0) talks[i]->Advance(waits[i].revents, time, *buffer);
      if (time > ends[i]) talks[i]->Fail(time, "took longer than --timeout");
    }
    for (size_t i = talks.size(); i-- > 0;) {
      if (!talks[i]->over()) continue;
      talks.erase(talks.begin() + static_cast<std::ptrdiff_t>(i));
      ends.erase(ends.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
}

bool ResponseReader::ReadHead(std::string_view head) {
  if (!head.starts_with("HTTP/1.") || head.size() < 12) return false;
  const auto digits = head.substr(9, 3);
  if (std::from_chars(digits.data(), digits.data() + 3, status_).ptr != digits.data() + 3) {
    return false;
  }
  bool chunked = false, sized = false;
  for (size_t at = head.find("\r\n"); at != std::string_view::npos && at + 2 < head.size();) {
    const size_t end = std::min(head.find("\r\n", at + 2), head.size());
    const std::string_view line = head.substr(at + 2, end - at - 2);
    const size_t colon = line.find(':');
    if (colon != std::string_view::npos) {
      const std::string name = Lower(line.substr(0, colon));
      const std::string value = Lower(Trim(line.substr(colon + 1)));
      if (name == "transfer-encoding") chunked = value == "chunked";
      if (name == "content-type") events_ = value.starts_with("text/event-stream");
      if (name == "content-length") {
        sized = std::from_chars(value.data(), value.data() + value.size(), left_).ec == std::errc();
      }
    }
    at = end;
  }
  if (status_ == 100) return true;  // the response is still to come
  phase_ = chunked ? Phase::kChunkSize : sized ? Phase::kLength : Phase::kUntilClose;
  if (phase_ == Phase::kLength && left_ == 0) phase_ = Phase::kDone;
  return true;
}

bool ResponseReader::ReadChunkSize(std::string_view line) {
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), left_, 16);
  if (error != std::errc() || end == line.data()) return false;
  phase_ = left_ == 0 ? Phase::kTrailer : Phase::kChunk;
  return true;
}

bool ResponseReader::Feed(std::string_view bytes, std::string& body) {
  unread_ += bytes;
  while (!unread_.empty() && phase_ != Phase::kDone) {
    switch (phase_) {
      case Phase::kHead: {
        const size_t end = unread_.find("\r\n\r\n");
        if (end == std::string::npos) return unread_.size() <= kMostHead;
        if (!ReadHead(std::string_view(unread_).substr(0, end))) return false;
        unread_.erase(0, end + 4);
        break;
      }
      case Phase::kChunkSize:
      case Phase::kTrailer: {
        const size_t end = unread_.find("\r\n");
        if (end == std::string::npos) return unread_.size() <= kMostHead;
        const std::string line = unread_.substr(0, end);
        unread_.erase(0, end + 2);
        if (phase_ == Phase::kChunkSize) {
          if (!ReadChunkSize(line)) return false;
        } else if (line.empty()) {
          phase_ = Phase::kDone;
        }
        break;
      }
      case Phase::kChunkEnd:
        if (unread_.size() < 2) return true;
        if (!unread_.starts_with("\r\n")) return false;
        unread_.erase(0, 2);
        phase_ = Phase::kChunkSize;
        break;
      case Phase::kLength:
      case Phase::kChunk: {
        const size_t count = static_cast<size_t>(std::min<uint64_t>(left_, unread_.size()));
        body.append(unread_, 0, count);
        unread_.erase(0, count);
        left_ -= count;
        if (left_ == 0) phase_ = phase_ == Phase::kChunk ? Phase::kChunkEnd : Phase::kDone;
        break;
      }
      case Phase::kUntilClose:
        body += unread_;
        unread_.clear();
        break;
      case Phase::kDone: break;
    }
  }
  return true;
}

bool ResponseReader::Close() {
  if (phase_ == Phase::kUntilClose) phase_ = Phase::kDone;
  return phase_ == Phase::kDone;
}

}  // namespace oort::cli
