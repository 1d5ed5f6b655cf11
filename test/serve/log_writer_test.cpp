// SPDX-License-Identifier: MIT
#include "serve/log_writer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "kit/files.h"
#include "serve/served_model.h"

namespace oort::serve {
namespace {

/// A pipe of the smallest size, which nobody reads unless a test does.
class SmallPipe {
 public:
  SmallPipe() {
    EXPECT_EQ(pipe2(ends_, O_CLOEXEC), 0);
    fcntl(ends_[1], F_SETPIPE_SZ, 4096);
  }
  ~SmallPipe() {
    CloseReader();
    close(ends_[1]);
  }
  SmallPipe(const SmallPipe&) = delete;
  SmallPipe& operator=(const SmallPipe&) = delete;
  int writer() const { return ends_[1]; }
  void CloseReader() {
    if (ends_[0] >= 0) close(std::exchange(ends_[0], -1));
  }
  /// All up to these words.
  std::string ReadTo(const std::string& words) const {
    std::string text;
    while (text.find(words) == std::string::npos) {
      std::string part(4096, '\0');
      const ssize_t got = read(ends_[0], part.data(), part.size());
      if (got <= 0) break;
      text.append(part, 0, static_cast<size_t>(got));
    }
    return text;
  }

 private:
  int ends_[2] = {-1, -1};
};

/// Quick to give up at its end.
LogWriter::Options Impatient(size_t most_bytes) {
  LogWriter::Options options;
  options.most_bytes = most_bytes;
  options.end_time = 10ms;
  return options;
}

TEST(LogWriter, WritesLinesInTheirOrder) {
  const SmallPipe pipe;
  std::string want;
  std::string got;
  {
    LogWriter log(pipe.writer());
    std::thread reader([&] { got = pipe.ReadTo("line 999\n"); });
    for (int i = 0; i < 1000; ++i) {
      log.Write("line " + std::to_string(i));
      want += "line " + std::to_string(i) + '\n';
    }
    EXPECT_TRUE(log.Flush(60s));
    EXPECT_EQ(log.dropped(), 0);
    reader.join();
  }
  EXPECT_EQ(got, want);
}

TEST(LogWriter, GivesWhatWaitsAtItsEnd) {
  const SmallPipe pipe;
  { LogWriter(pipe.writer()).Write("the last words"); }
  EXPECT_EQ(pipe.ReadTo("\n"), "the last words\n");
}

TEST(LogWriter, DropsWhatNobodyReadsAndSaysHowMuch) {
  const SmallPipe pipe;
  LogWriter log(pipe.writer(), Impatient(8192));
  const std::string line(99, 'x');
  for (int i = 0; i < 1000; ++i) log.Write(line);
  EXPECT_FALSE(log.Flush(1ms));
  const int64_t dropped = log.dropped();
  EXPECT_GT(dropped, 1000 - 3 * 8192 / 100);
  EXPECT_LT(dropped, 1000);
  const std::string got = pipe.ReadTo("dropped here\n");
  // Each line that was taken is whole, and the count stands where the others are missing.
  const std::string told =
      "oort: " + std::to_string(dropped) + " lines of the log were dropped here\n";
  EXPECT_TRUE(got.ends_with(line + '\n' + told)) << got.substr(got.size() - 200);
  EXPECT_EQ(got.size(), static_cast<size_t>(1000 - dropped) * 100 + told.size());
  EXPECT_TRUE(log.Flush(60s));
  log.Write("again");
  EXPECT_EQ(pipe.ReadTo("\n"), "again\n");
  EXPECT_EQ(log.dropped(), dropped);
}

TEST(LogWriter, EndsThoughNobodyReads) {
  const SmallPipe pipe;
  const auto begin = std::chrono::steady_clock::now();
  {
    LogWriter log(pipe.writer(), Impatient(1 << 20));
    for (int i = 0; i < 1000; ++i) log.Write(std::string(99, 'x'));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 30s);
}

/// The number of a descriptor that was closed goes to whatever is opened next.
TEST(LogWriter, WritesToNoOtherFileOfTheSameNumber) {
  SmallPipe other;
  {
    const SmallPipe pipe;
    LogWriter log(pipe.writer(), Impatient(1 << 20));
    for (int i = 0; i < 100; ++i) log.Write(std::string(99, 'x'));
    EXPECT_FALSE(log.Flush(1ms));
    ASSERT_EQ(dup3(other.writer(), pipe.writer(), O_CLOEXEC), pipe.writer());
  }
  ASSERT_EQ(write(other.writer(), "mine\n", 5), 5);
  EXPECT_EQ(other.ReadTo("\n"), "mine\n");
}

TEST(LogWriter, DropsLinesForAClosedDescriptor) {
  LogWriter log(-1, Impatient(1 << 20));
  log.Write("nobody reads this");
  EXPECT_TRUE(log.Flush(60s));
  EXPECT_EQ(log.dropped(), 1);
}

TEST(LogWriter, GoesOnWhenTheReaderHasGone) {
  SmallPipe pipe;
  pipe.CloseReader();
  LogWriter log(pipe.writer(), Impatient(1 << 20));
  log.Write("nobody reads this");
  EXPECT_TRUE(log.Flush(60s));
  EXPECT_EQ(log.dropped(), 1);
}

TEST(LogWriter, TellsTheNextReaderWhatTheLastOneMissed) {
  const testing::TemporaryFolder folder;
  const std::string path = folder / "log";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const auto open_to_read = [&] { return open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC); };
  const int first = open_to_read();
  const int end = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  ASSERT_GE(end, 0);
  close(first);
  LogWriter log(end);
  log.Write("missed");
  log.Write("missed, too");
  ASSERT_TRUE(log.Flush(60s));
  const int second = open_to_read();
  log.Write("heard");
  log.Write("again");
  ASSERT_TRUE(log.Flush(60s));
  std::string got(4096, '\0');
  got.resize(static_cast<size_t>(std::max<ssize_t>(0, read(second, got.data(), got.size()))));
  EXPECT_EQ(got, "oort: 2 lines of the log were dropped here\nheard\nagain\n");
  EXPECT_EQ(log.dropped(), 2);
  close(second);
  close(end);
}

TEST(LogWriter, KeepsNoServerFromAnswering) {
  const SmallPipe pipe;
  LogWriter log(pipe.writer(), Impatient(1 << 14));
  ServeOptions options = Options();
  options.log = [&](std::string_view line) { log.Write(line); };
  options.dropped_lines = [&] { return log.dropped(); };
  const Fixture fixture(std::move(options));
  RawClient client(fixture.server.port());
  for (int i = 0; i < 2000; ++i) {
    client.Send("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
    ASSERT_EQ(client.ReceiveAnswer().status, 200) << i;
  }
  EXPECT_GT(log.dropped(), 0);
  const std::string metrics = fixture.Get("/metrics").body;
  const size_t at = metrics.find("\noort:log_lines_dropped_total{");
  ASSERT_NE(at, std::string::npos);
  EXPECT_GT(std::stol(metrics.substr(metrics.find(' ', at))), 0);
}

}  // namespace
}  // namespace oort::serve
