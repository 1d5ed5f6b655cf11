// SPDX-License-Identifier: MIT
// Clients that no server would wish for: they leave, talk nonsense, are slow or want too much.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "serve/http/server.h"
#include "serve/stream_server.h"

namespace oort::serve::http {
namespace {

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
