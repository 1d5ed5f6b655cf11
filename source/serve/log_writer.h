// SPDX-License-Identifier: MIT
// Lines of a log, which nobody waits for: neither the thread of the connections nor an engine's
// may stand still because who reads the log does.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

namespace oort::serve {

/// Writes lines to a descriptor on a thread of its own. Lines that find too many unwritten ones are
/// dropped, as are those that cannot be written; as soon as others can, a line says how many.
/// Thread contract: any number of threads.
class LogWriter {
 public:
  struct Options {
    size_t most_bytes = size_t{1} << 20;  ///< that wait
    /// The line that tells how many are missing where it stands.
    std::function<std::string(int64_t dropped)> dropped_line = [](int64_t dropped) {
      return "oort: " + std::to_string(dropped) + " lines of the log were dropped here";
    };
    std::chrono::milliseconds end_time{1000};  ///< the destructor waits at most
  };

  explicit LogWriter(int descriptor) : LogWriter(descriptor, Options()) {}
  /// Writes to a copy of the descriptor. Where it is closed, all lines are dropped.
  LogWriter(int descriptor, Options options);
  /// Gives lines that wait some time to be written.
  ~LogWriter();
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  /// Takes a line without its end.
  void Write(std::string_view line) noexcept;
  /// Whether all that was taken has been written within `most`.
  bool Flush(std::chrono::milliseconds most);
  /// Lines of all time that were not taken, or could not be written.
  int64_t dropped() const;

 private:
  struct State;
  std::shared_ptr<State> state_;  // of the thread, too, which may stay in a write that never ends
  std::thread thread_;
};

}  // namespace oort::serve
