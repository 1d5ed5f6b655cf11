// SPDX-License-Identifier: MIT
// A client of HTTP/1.1 that keeps many requests under way on one thread and notes when what came.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace oort::cli {

/// Where a server is: "http://127.0.0.1:8080/v1" has the prefix "/v1".
struct ServerUrl {
  std::string host, port, prefix;
  /// Throws a UsageError that tells what an address looks like.
  static ServerUrl Parse(const std::string& text);
  std::string ToString() const;
};

/// The head and body of a request to `path`, as they are sent; a POST where there is a body.
std::string RequestText(const ServerUrl& url, std::string_view path, std::string_view key,
                        std::string_view body);

/// What became of one request. All times are seconds since the load began; those that did not
/// happen are negative.
struct LoadResult {
  double due = 0;  ///< when it was to be sent
  double sent = -1, first = -1, end = -1;
  std::vector<double> gaps;  ///< between two events that bring text
  int64_t prompt_tokens = 0, new_tokens = 0, cached_tokens = 0;
  int status = 0;     ///< 0: no answer came
  std::string error;  ///< empty: all went well
  std::string body;   ///< of an answer that is no stream of events
  bool ok() const { return error.empty(); }
};

struct LoadPlan {
  ServerUrl url;
  size_t requests = 1;
  size_t most_open = 1;                     ///< requests under way at a time
  std::vector<double> due;                  ///< when to send which; none: as soon as there is room
  double seconds = 0;                       ///< sends none later than this; 0: until all are sent
  double most_seconds = 600;                ///< for one request
  std::function<std::string(size_t)> text;  ///< RequestText of the i-th
};

/// Sends what the plan has and returns what was sent, in order. Throws kIo where the name of the
/// server means nothing.
std::vector<LoadResult> RunLoad(const LoadPlan& plan);

/// Takes the bytes of a response as they come and gives its body.
class ResponseReader {
 public:
  /// Appends to `body` what of it is in `bytes`. Returns false where this is no HTTP.
  bool Feed(std::string_view bytes, std::string& body);
  /// The server has closed: whether the response is whole.
  bool Close();

  bool done() const { return phase_ == Phase::kDone; }
  int status() const { return status_; }
  bool is_events() const { return events_; }

 private:
  enum class Phase { kHead, kLength, kChunkSize, kChunk, kChunkEnd, kUntilClose, kTrailer, kDone };
  bool ReadHead(std::string_view head);
  bool ReadChunkSize(std::string_view line);

  Phase phase_ = Phase::kHead;
  std::string unread_;
  uint64_t left_ = 0;
  int status_ = 0;
  bool events_ = false;
};

}  // namespace oort::cli
