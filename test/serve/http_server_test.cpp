// SPDX-License-Identifier: MIT
#include "serve/http/server.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#include "kit/errors.h"
#include "serve/http/exchange.h"
#include "serve/stream_server.h"

namespace oort::serve::http {
namespace {

TEST(HttpServer, AnswersOneRequestAfterTheOther) {
  StreamServer server;
  RawClient client(server.port());
  for (int i = 0; i < 3; ++i) {
    client.Send(Post("/a?b", "text"));
    const Answer answer = client.ReceiveAnswer();
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.body, "POST /a?b text");
    EXPECT_TRUE(answer.Has("Content-Type: text/plain\r\n"));
  }
  client.Send(Get("/c", "Connection: close\r\n"));
  const Answer last = client.ReceiveAnswer();
  EXPECT_TRUE(last.Has("Connection: close\r\n"));
  EXPECT_EQ(client.Receive(), "");
  EXPECT_TRUE(client.closed());
}

TEST(HttpServer, AnswersPipelinedRequestsInOrder) {
  StreamServer server;
  RawClient client(server.port());
  std::string all;
  for (int i = 0; i < 50; ++i) all += Post("/" + std::to_string(i), "x");
  client.Send(all + "\r\n" + Get("/last"));
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(client.ReceiveAnswer().body, "POST /" + std::to_string(i) + " x");
  }
  EXPECT_EQ(client.ReceiveAnswer().body, "GET /last ");
}

TEST(HttpServer, ReadsBodiesInChunksByteByByte) {
  StreamServer server;
  RawClient client(server.port());
  const std::string request =
      "POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
      "3\r\nabc\r\nA;why=so\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n";
  for (const char c : request) client.Send(std::string_view(&c, 1));
  EXPECT_EQ(client.ReceiveAnswer().body, "POST /a abc0123456789");
}

TEST(HttpServer, AnswersHeadWithoutABody) {
  StreamServer server;
  RawClient client(server.port());
  client.Send("HEAD /a HTTP/1.1\r\nHost: x\r\n\r\n");
  const Answer answer = client.ReceiveAnswer(true);
  EXPECT_TRUE(answer.Has("Content-Length: 8\r\n"));
  client.Send(Get("/b"));
  EXPECT_EQ(client.ReceiveAnswer().body, "GET /b ");
}

TEST(HttpServer, SaysContinueToWhoAsks) {
  StreamServer server;
  RawClient client(server.port());
  client.Send("POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.ReceiveAnswer().status, 100);
  client.Send("ok");
  EXPECT_EQ(client.ReceiveAnswer().body, "POST /a ok");
}

TEST(HttpServer, StreamsInPartsAndGoesOn) {
  StreamServer server;
  RawClient client(server.port());
  for (int i = 0; i < 2; ++i) {
    client.Send(Get("/stream"));
    const Reply reply = server.Next();
    reply.Start({.type = "text/event-stream"});
    for (const char* part : {"one ", "two ", "three"}) reply.Write(part);
    reply.End();
    const Answer answer = client.ReceiveAnswer();
    EXPECT_TRUE(answer.whole);
    EXPECT_TRUE(answer.Has("Transfer-Encoding: chunked\r\n"));
    EXPECT_EQ(answer.body, "one two three");
  }
  EXPECT_EQ(server.gone(), 0);
}

TEST(HttpServer, StreamsToOldClientsUntilTheEndOfTheConnection) {
  StreamServer server;
  RawClient client(server.port());
  client.Send("GET /stream HTTP/1.0\r\n\r\n");
  const Reply reply = server.Next();
  reply.Start({});
  reply.Write("all");
  reply.End();
  const std::string all = client.ReceiveAll();
  EXPECT_TRUE(all.ends_with("\r\n\r\nall")) << all;
}

TEST(HttpServer, AReplyThatIsLostIsAnError) {
  StreamServer server;
  RawClient client(server.port());
  client.Send(Get("/stream"));
  { const Reply lost = server.Next(); }
  EXPECT_EQ(client.ReceiveAnswer().status, 500);
  client.Send(Get("/stream"));
  server.Next().Start({.body = "a part"});
  const Answer cut = client.ReceiveAnswer();
  EXPECT_EQ(cut.status, 200);
  EXPECT_FALSE(cut.whole);
}

TEST(HttpServer, CallsWhenNothingWasWritten) {
  StreamServer server;
  RawClient client(server.port());
  client.Send(Get("/stream"));
  const Reply reply = server.Next();
  std::atomic<int> calls = 0;
  reply.OnQuiet(200ms, [&] {
    if (++calls == 1) reply.Start({});
    reply.Write(": wait\n\n");
    if (calls == 3) reply.End();
  });
  EXPECT_EQ(client.ReceiveAnswer().body, ": wait\n\n: wait\n\n: wait\n\n");
}

TEST(HttpServer, CallsWhenAllIsSent) {
  StreamServer server;
  RawClient client(server.port());
  client.Send(Get("/stream"));
  const Reply reply = server.Next();
  std::atomic<int> left = 5;
  reply.OnDrained([&] {
    if (--left > 0) return reply.Write("more");
    reply.End();
  });
  reply.Start({});
  EXPECT_EQ(client.ReceiveAnswer().body, "moremoremoremore");
}

TEST(HttpServer, RunsPostedWorkInOrder) {
  StreamServer server;
  RawClient client(server.port());
  client.Send(Get("/stream"));
  const Reply reply = server.Next();
  reply.Start({});
  std::string want;
  for (int i = 0; i < 100; ++i) {
    reply.Post([&reply, i] { reply.Write(std::to_string(i)); });
    want += std::to_string(i);
  }
  reply.Post([&reply] { reply.End(); });
  EXPECT_EQ(client.ReceiveAnswer().body, want);
}

TEST(Mailbox, WorkThatMakesWorkWakesNobody) {
  int wakes = 0;
  std::vector<int> order;
  Mailbox mailbox([&] { ++wakes; });
  mailbox.Push([&] {
    order.push_back(1);
    mailbox.Push([&] { order.push_back(3); });
  });
  mailbox.Push([&] { order.push_back(2); });
  mailbox.Run();
  EXPECT_EQ(order, (std::vector{1, 2, 3}));
  EXPECT_EQ(wakes, 1);
  mailbox.Push([&] { order.push_back(4); });  // after Run somebody has to call it again
  EXPECT_EQ(wakes, 2);
  mailbox.Run();
  EXPECT_EQ(order.back(), 4);
}

TEST(Mailbox, WorkWithoutEndLetsSocketsHaveTheirTurn) {
  int wakes = 0;
  Mailbox mailbox([&] { ++wakes; });
  std::function<void()> again = [&] { mailbox.Push(again); };
  mailbox.Push(again);
  for (int runs = 1; runs < 4; ++runs) {
    EXPECT_EQ(wakes, runs);
    mailbox.Run();  // returns, though there is always more
  }
}

TEST(Mailbox, AWakeUpThatFailsIsStillOwed) {
  int wakes = 0;
  bool fails = true;
  std::vector<int> order;
  Mailbox mailbox([&] {
    ++wakes;
    if (fails) throw std::bad_alloc();
  });
  mailbox.Push([&] { order.push_back(1); });
  EXPECT_EQ(wakes, 1);
  fails = false;
  mailbox.Push([&] { order.push_back(2); });
  EXPECT_EQ(wakes, 2);
  mailbox.Run();
  EXPECT_EQ(order, (std::vector{1, 2}));
  // The same for one that Run owes, and for who calls Run without being asked.
  std::function<void()> again = [&] {
    order.push_back(3);
    if (order.size() < 10) mailbox.Push(again);
  };
  mailbox.Push(again);
  fails = true;
  mailbox.Run();
  const size_t so_far = order.size();
  mailbox.Run();
  EXPECT_GT(order.size(), so_far);
  fails = false;
  const int before = wakes;
  mailbox.Push([] {});
  EXPECT_EQ(wakes, before + 1);
}

TEST(HttpServer, AFailureInPostedWorkEndsNothingElse) {
  StreamServer server;
  RawClient client(server.port());
  client.Send(Get("/stream"));
  const Reply reply = server.Next();
  reply.Post([] { throw std::bad_alloc(); });
  reply.Post([&reply] { reply.Send({.body = "still here"}); });
  EXPECT_EQ(client.ReceiveAnswer().body, "still here");
}

TEST(HttpServer, DrainAnswersWhatIsAsked) {
  StreamServer server;
  RawClient idle(server.port()), busy(server.port());
  idle.Send(Get("/"));
  EXPECT_EQ(idle.ReceiveAnswer().status, 200);
  busy.Send(Get("/stream"));
  const Reply reply = server.Next();
  auto drained = std::async(std::launch::async, [&] { return server.server().Drain(kMost); });
  EXPECT_EQ(idle.ReceiveAll(), "");
  reply.Send({.body = "the last"});
  const Answer answer = busy.ReceiveAnswer();
  EXPECT_EQ(answer.body, "the last");
  EXPECT_TRUE(answer.Has("Connection: close\r\n"));
  EXPECT_TRUE(drained.get());
}

TEST(HttpServer, DrainDoesNotWaitForWhoNeverAsked) {
  Limits limits;
  limits.head_time = 1h;
  StreamServer server(limits);
  RawClient silent(server.port());
  EXPECT_TRUE(Eventually([&] { return server.server().connections() == 1; }));
  EXPECT_TRUE(server.server().Drain(kMost));
  EXPECT_EQ(silent.ReceiveAll(), "");
}

TEST(HttpServer, DrainCutsWhatTakesTooLong) {
  StreamServer server;
  RawClient busy(server.port());
  busy.Send(Get("/stream"));
  const Reply reply = server.Next();
  EXPECT_FALSE(server.server().Drain(100ms));
  EXPECT_EQ(server.gone(), 1);
  EXPECT_EQ(busy.ReceiveAll(), "");
}

TEST(HttpServer, EndsWhileStreamsAreOpen) {
  RawClient client = [&] {
    StreamServer server;
    RawClient inner(server.port());
    inner.Send(Get("/stream"));
    const Reply reply = server.Next();
    reply.Start({.body = "first"});
    EXPECT_NE(inner.Receive(), "");
    return inner;
  }();
  EXPECT_TRUE(client.Receive().empty());
}

TEST(HttpServer, LogsWhatItServed) {
  std::mutex mutex;
  std::vector<std::string> lines;
  const auto count = [&] {
    const std::lock_guard lock(mutex);
    return lines.size();
  };
  Server server({.handle =
                     [](const Request& request, const Reply& reply) {
                       reply.Note("noted");
                       Echo(request, reply);
                     },
                 .log =
                     [&](const Served& served) {
                       const std::lock_guard lock(mutex);
                       lines.push_back(std::string(served.method) + ' ' + std::string(served.path) +
                                       ' ' + std::to_string(served.status) + ' ' +
                                       std::to_string(served.bytes) + ' ' +
                                       std::string(served.note) + ' ' + std::string(served.peer));
                       EXPECT_GE(served.seconds, 0);
                       EXPECT_FALSE(served.cut);
                     }});
  RawClient good(server.port()), bad(server.port());
  good.Send(Get("/a?secret"));
  EXPECT_EQ(good.ReceiveAnswer().status, 200);
  EXPECT_TRUE(Eventually([&] { return count() == 1; }));
  bad.Send("nonsense\r\n\r\n");
  EXPECT_EQ(bad.ReceiveAnswer().status, 400);
  EXPECT_TRUE(Eventually([&] { return count() == 2; }));
  EXPECT_EQ(lines[0], "GET /a 200 14 noted 127.0.0.1");
  EXPECT_TRUE(lines[1].starts_with("- - 400 ")) << lines[1];
}

TEST(HttpServer, SaysWhyItCannotListen) {
  StreamServer server;
  testing::ExpectThrows([&] { Server second({.port = server.port(), .handle = Echo}); },
                        ErrorCode::kIo, "127.0.0.1:" + std::to_string(server.port()));
  testing::ExpectThrows([&] { Server nowhere({.host = "no such host", .handle = Echo}); },
                        ErrorCode::kIo, "no such host");
}

}  // namespace
}  // namespace oort::serve::http
