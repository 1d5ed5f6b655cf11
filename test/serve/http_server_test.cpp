// SPDX-License-Identifier: MIT
#include "serve/http/server.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "kit/errors.h"
#include "serve/http/exchange.h"
#include "serve/raw_client.h"

namespace oort::serve::http {
namespace {

using namespace std::chrono_literals;
using Answer = RawClient::Answer;

/// What a test waits for at most. Nothing here depends on how long it really takes.
constexpr auto kMost = 30s;

bool Eventually(const std::function<bool()>& is) {
  const auto end = std::chrono::steady_clock::now() + kMost;
  while (!is()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

/// Says what it was asked: "POST /path?query body".
void Echo(const Request& request, const Reply& reply) {
  std::string query = request.query.empty() ? "" : "?" + request.query;
  reply.Send({.type = "text/plain",
              .body = request.method + ' ' + request.path + query + ' ' + request.body});
}

/// A server whose streams the test holds in its hands.
class StreamServer {
 public:
  explicit StreamServer(Limits limits = {})
      : server_({.limits = limits, .handle = [this](const Request& request, const Reply& reply) {
                   if (request.path != "/stream") return Echo(request, reply);
                   reply.OnGone([this] { ++gone_; });
                   const std::lock_guard lock(mutex_);
                   replies_.push_back(reply);
                 }}) {}
  Reply Next() {
    EXPECT_TRUE(Eventually([&] {
      const std::lock_guard lock(mutex_);
      return !replies_.empty();
    }));
    const std::lock_guard lock(mutex_);
    Reply reply = replies_.front();
    replies_.erase(replies_.begin());
    return reply;
  }
  Server& server() { return server_; }
  uint16_t port() const { return server_.port(); }
  int gone() const { return gone_; }

 private:
  std::mutex mutex_;
  std::vector<Reply> replies_;
  std::atomic<int> gone_ = 0;
  Server server_;  // the last: its thread uses the others
};

std::string Get(const std::string& path, const std::string& more = "") {
  return "GET " + path + " HTTP/1.1\r\nHost: x\r\n" + more + "\r\n";
}

std::string Post(const std::string& path, const std::string& body) {
  return "POST " + path + " HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + body;
}

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

TEST(HttpServer, NoticesWhoLeavesHoweverHeLeaves) {
  StreamServer server;
  for (const int how : {0, 1, 2}) {
    for (const bool started : {false, true}) {
      const int before = server.gone();
      RawClient client(server.port());
      client.Send(Get("/stream"));
      const Reply reply = server.Next();
      if (started) reply.Start({});
      if (how == 0) client.Close();
      if (how == 1) client.Reset();
      if (how == 2) client.HalfClose();
      EXPECT_TRUE(Eventually([&] { return server.gone() == before + 1; })) << how;
      EXPECT_TRUE(reply.gone());
      reply.Write("nobody reads this");
      reply.End();
    }
  }
  EXPECT_TRUE(Eventually([&] { return server.server().connections() == 0; }));
}

/// More than is kept of what comes behind a request hides the end.
TEST(HttpServer, NoticesWhoLeavesBehindManyRequests) {
  StreamServer server;
  std::string more;
  while (more.size() < 70'000) more += Get("/");
  for (const int how : {0, 1, 2}) {
    const int before = server.gone();
    RawClient client(server.port());
    client.Send(Get("/stream"));
    const Reply reply = server.Next();
    client.Send(more);
    if (how == 0) client.Close();
    if (how == 1) client.Reset();
    if (how == 2) client.HalfClose();
    EXPECT_TRUE(Eventually([&] { return server.gone() == before + 1; })) << how;
  }
  RawClient patient(server.port());  // who waits for his answers gets them
  patient.Send(Get("/stream"));
  const Reply reply = server.Next();
  patient.Send(more);
  EXPECT_EQ(patient.Receive(300ms), "");
  EXPECT_FALSE(reply.gone());
  reply.Send({.body = "first"});
  EXPECT_EQ(patient.ReceiveAnswer().body, "first");
  for (size_t i = 0; i < more.size() / Get("/").size(); ++i) {
    ASSERT_EQ(patient.ReceiveAnswer().body, "GET / ") << i;
  }
}

TEST(HttpServer, TellsWhoComesLateThatTheAskerHasLeft) {
  StreamServer server;
  RawClient client(server.port());
  client.Send(Get("/stream"));
  const Reply reply = server.Next();
  client.Close();
  EXPECT_TRUE(Eventually([&] { return reply.gone(); }));
  bool told = false;
  reply.OnGone([&] { told = true; });
  EXPECT_TRUE(told);
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

TEST(HttpServer, RefusesAndClosesWithTheReasonReadable) {
  StreamServer server;
  const auto status = [&](const std::string& request) {
    RawClient client(server.port());
    client.Send(request);
    const Answer answer = client.ReceiveAnswer();
    EXPECT_TRUE(answer.Has("Connection: close\r\n")) << request.substr(0, 100);
    EXPECT_EQ(client.ReceiveAll(), "");
    return answer.status;
  };
  const std::string post = "POST / HTTP/1.1\r\nHost: x\r\n";
  EXPECT_EQ(status("nonsense\r\n\r\n"), 400);
  EXPECT_EQ(status("GET / HTTP/1.1\nHost: x\n\n"), 400);
  EXPECT_EQ(status(post + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 400);
  EXPECT_EQ(status(post + "Content-Length: 5000000\r\n\r\n"), 413);
  EXPECT_EQ(status(post + "Content-Length: 5000000\r\n\r\n" + std::string(2 << 20, 'x')), 413);
  EXPECT_EQ(status(post + "Transfer-Encoding: chunked\r\n\r\n500000\r\n"), 413);
  EXPECT_EQ(status(post + "Transfer-Encoding: chunked\r\n\r\nxyz\r\n"), 400);
  EXPECT_EQ(status(post + "Transfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n"), 400);
  EXPECT_EQ(status(post + "Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\n"), 400);
  EXPECT_EQ(status(post + "Transfer-Encoding: chunked\r\n\r\n1;" + std::string(40'000, 'e')), 400);
  EXPECT_EQ(status(Get("/", "A: " + std::string(20'000, 'a') + "\r\n")), 431);
  EXPECT_EQ(status("GET /" + std::string(40'000, 'a')), 431);
}

TEST(HttpServer, LooksAtHeadsBeforeBodies) {
  std::atomic<int> handled = 0;
  Server server({.handle =
                     [&](const Request& request, const Reply& reply) {
                       ++handled;
                       Echo(request, reply);
                     },
                 .check = [](const Request& request) -> std::optional<Response> {
                   if (!request.Get("authorization").empty()) return {};
                   return Response{.status = 401, .body = "no"};
                 }});
  RawClient client(server.port());
  client.Send(Get("/a") + Get("/b", "Authorization: x\r\n"));  // no body: the connection stays
  EXPECT_EQ(client.ReceiveAnswer().status, 401);
  EXPECT_EQ(client.ReceiveAnswer().body, "GET /b ");
  client.Send("POST /c HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n");
  EXPECT_EQ(client.ReceiveAnswer().status, 401);
  EXPECT_EQ(client.ReceiveAll(), "");
  EXPECT_EQ(handled, 1);
}

TEST(HttpServer, SlowRequestsEnd) {
  Limits limits;
  limits.head_time = limits.body_time = limits.idle_time = 300ms;
  StreamServer server(limits);
  RawClient silent(server.port()), head(server.port()), body(server.port()), idle(server.port());
  head.Send("GET / HT");
  body.Send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc");
  idle.Send(Get("/"));
  EXPECT_EQ(idle.ReceiveAnswer().status, 200);
  EXPECT_EQ(head.ReceiveAnswer().status, 408);
  EXPECT_EQ(body.ReceiveAnswer().status, 408);
  for (RawClient* client : {&silent, &head, &body, &idle}) EXPECT_EQ(client->ReceiveAll(), "");
  EXPECT_TRUE(Eventually([&] { return server.server().connections() == 0; }));
}

TEST(HttpServer, ReadersWhoTakeNothingAreCut) {
  Limits limits;
  limits.write_time = 300ms;
  StreamServer server(limits);
  RawClient client(server.port(), 4096);
  client.Send(Get("/stream"));
  const Reply reply = server.Next();
  reply.Start({});
  const std::string part(1 << 20, 'x');
  while (server.gone() == 0) {
    if (reply.unsent() == 0) reply.Write(part);
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_TRUE(reply.gone());
}

TEST(HttpServer, ReadersWhoTakeLittleAreCut) {
  Limits limits;
  limits.write_time = 300ms;
  limits.write_progress = limits.unsent_bytes = size_t{1} << 30;
  StreamServer server(limits);
  RawClient client(server.port(), 4096);
  client.Send(Get("/stream"));
  const Reply reply = server.Next();
  reply.Start({.body = std::string(64 << 20, 'x')});
  size_t received = 0;
  while (server.gone() == 0 && received < (64u << 20)) {  // he always takes something
    received += client.Receive(10ms).size();
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_TRUE(Eventually([&] { return server.gone() == 1; }));
  EXPECT_LT(received, 64u << 20);
}

TEST(HttpServer, ResponsesThatPileUpAreCut) {
  Limits limits;
  limits.unsent_bytes = 1 << 20;
  StreamServer server(limits);
  RawClient client(server.port(), 4096);
  client.Send(Get("/stream"));
  const Reply reply = server.Next();
  reply.Start({});
  const std::string part(64 << 10, 'x');
  size_t most = 0;
  EXPECT_TRUE(Eventually([&] {
    reply.Write(part);
    most = std::max(most, reply.unsent());
    return server.gone() == 1;
  }));
  EXPECT_LT(most, 2u << 20);
}

TEST(HttpServer, WholeResponsesMayBeLarge) {
  Limits limits;
  limits.unsent_bytes = 1 << 10;
  StreamServer server(limits);
  RawClient client(server.port());
  client.Send(Get("/stream"));
  server.Next().Send({.body = std::string(5 << 20, 'x')});
  EXPECT_EQ(client.ReceiveAnswer().body.size(), 5u << 20);
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

TEST(HttpServer, TakesNoMoreConnectionsThanItMay) {
  Limits limits;
  limits.connections = 2;
  StreamServer server(limits);
  RawClient first(server.port()), second(server.port()), third(server.port());
  for (RawClient* client : {&first, &second, &third}) client->Send(Get("/"));
  EXPECT_EQ(first.ReceiveAnswer().status, 200);
  EXPECT_EQ(second.ReceiveAnswer().status, 200);
  EXPECT_EQ(third.Receive(300ms), "");  // it waits
  EXPECT_FALSE(third.closed());
  first.Close();
  EXPECT_EQ(third.ReceiveAnswer().status, 200);
}

TEST(HttpServer, BodiesHaveALimitTogether) {
  Limits limits;
  limits.all_body_bytes = 1000;
  StreamServer server(limits);
  RawClient first(server.port()), second(server.port());
  const std::string post = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 600\r\n\r\n";
  first.Send(post + std::string(590, 'x'));
  EXPECT_EQ(first.Receive(200ms), "");
  second.Send(post + std::string(590, 'x'));
  EXPECT_EQ(second.ReceiveAnswer().status, 503);
  first.Send(std::string(10, 'x'));
  EXPECT_EQ(first.ReceiveAnswer().status, 200);
  RawClient third(server.port());
  third.Send(post + std::string(600, 'x'));
  EXPECT_EQ(third.ReceiveAnswer().status, 200);
}

TEST(HttpServer, AnnouncedBodiesKeepNobodyOut) {
  Limits limits;
  limits.all_body_bytes = 1000;
  StreamServer server(limits);
  const std::string head = "POST / HTTP/1.1\r\nHost: x\r\n";
  std::vector<std::unique_ptr<RawClient>> slow;
  for (const char* announced :
       {"Content-Length: 900\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n"}) {
    for (int i = 0; i < 4; ++i) {
      slow.push_back(std::make_unique<RawClient>(server.port()));
      slow.back()->Send(head + announced);
    }
  }
  EXPECT_EQ(slow.back()->Receive(200ms), "");
  RawClient other(server.port());
  other.Send(head + "Content-Length: 600\r\n\r\n" + std::string(600, 'x'));
  EXPECT_EQ(other.ReceiveAnswer().status, 200);
}

TEST(HttpServer, EmptyLinesBeforeARequest) {
  StreamServer server;
  RawClient client(server.port());
  std::string lines;
  for (int i = 0; i < 100'000; ++i) lines += "\r\n";
  client.Send(lines + Get("/"));
  EXPECT_EQ(client.ReceiveAnswer().status, 200);
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

TEST(HttpServer, AStormOfDisconnectsLeavesNothing) {
  StreamServer server;
  const std::string requests[] = {Get("/stream"), Get("/"), Post("/a", std::string(5000, 'x')),
                                  "GET / HTTP/1.1\r\nHo", "POST / HTTP/1.1\r\nHost: x\r\nContent-"};
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 4; ++seed) {
    threads.emplace_back([&, seed] {
      unsigned state = seed;
      const auto random = [&] { return (state = state * 1664525 + 1013904223) >> 16; };
      for (int i = 0; i < 250; ++i) {
        RawClient client(server.port());
        const std::string& request = requests[random() % std::size(requests)];
        client.Send(request.substr(0, 1 + random() % request.size()));
        if (random() % 2) client.Receive(std::chrono::milliseconds(random() % 3));
        if (random() % 3 == 0) client.HalfClose();
        if (random() % 2) client.Reset();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(Eventually([&] { return server.server().connections() == 0; }));
  RawClient client(server.port());
  client.Send(Get("/after"));
  EXPECT_EQ(client.ReceiveAnswer().body, "GET /after ");
}

}  // namespace
}  // namespace oort::serve::http
