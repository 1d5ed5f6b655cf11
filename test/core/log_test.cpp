// SPDX-License-Identifier: MIT
#include "oort/log.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

namespace oort {
namespace {

TEST(Log, TheSinkIsNotCalledBehindItsEnd) {
  std::atomic<bool> inside = false, gone = false, late = false;
  log::SetSink([&](log::Level, std::string_view) {
    inside = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    late = gone.load();
  });
  std::thread writer([] { log::Write(log::Level::kError, "slow"); });
  while (!inside) std::this_thread::yield();
  log::SetSink({});
  gone = true;
  writer.join();
  EXPECT_FALSE(late);
}

TEST(Log, ASinkMayWriteAndReplaceItself) {
  std::string first, second;
  log::SetSink([&](log::Level, std::string_view message) {
    first += message;
    if (message == "a") {
      log::Write(log::Level::kWarning, "b");
    } else {
      log::SetSink([&](log::Level, std::string_view later) { second += later; });
      log::Write(log::Level::kWarning, "c");
      log::SetSink({});
    }
  });
  log::Write(log::Level::kWarning, "a");
  log::Write(log::Level::kWarning, "d");
  EXPECT_EQ(first, "ab");
  EXPECT_EQ(second, "c");
}

}  // namespace
}  // namespace oort
