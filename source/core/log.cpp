// SPDX-License-Identifier: MIT
#include "oort/log.h"

#include <atomic>
#include <memory>
#include <mutex>

namespace oort::log {
namespace {

std::atomic<Level> g_level{Level::kOff};
std::mutex g_mutex;
std::shared_ptr<const Sink> g_sink;  // guarded by g_mutex

}  // namespace

void SetSink(Sink sink, Level level) {
  auto shared = sink ? std::make_shared<const Sink>(std::move(sink)) : nullptr;
  const std::lock_guard lock(g_mutex);
  g_level = shared ? level : Level::kOff;
  g_sink = std::move(shared);
}

bool Enabled(Level level) { return level >= g_level.load(std::memory_order_relaxed); }

void Write(Level level, std::string_view message) {
  if (!Enabled(level)) return;
  std::shared_ptr<const Sink> sink;
  {
    const std::lock_guard lock(g_mutex);
    sink = g_sink;
  }
  if (sink) (*sink)(level, message);
}

}  // namespace oort::log
