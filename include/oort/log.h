// SPDX-License-Identifier: MIT
// The library is silent until the program asks for its log. oort/glog.h sends it to glog.
#pragma once

#include <functional>
#include <string_view>

namespace oort::log {

enum class Level { kDebug, kInfo, kWarning, kError, kOff };

using Sink = std::function<void(Level level, std::string_view message)>;

/// Sends messages of at least `level` to `sink`. An empty sink switches the log off. When it
/// returns, the sink before is not called any more: it waits for calls that other threads are in.
/// Thread contract: may be called at any time from any thread; sinks may be called concurrently.
void SetSink(Sink sink, Level level = Level::kInfo);

bool Enabled(Level level);
void Write(Level level, std::string_view message);

}  // namespace oort::log
