// SPDX-License-Identifier: MIT
#include "serve/http/head.h"

#include <gtest/gtest.h>

#include <random>

namespace oort::serve::http {
namespace {

/// The status that a head is refused with; 0 where it is not.
int RefusedWith(const std::string& head, const HeadLimits& limits = {}) {
  try {
    size_t scanned = 0;
    const std::optional<size_t> end = FindHeadEnd(head, scanned);
    if (!end) return -1;
    ParseHead(std::string_view(head).substr(0, *end), limits);
    return 0;
  } catch (const Refusal& refusal) {
    EXPECT_FALSE(refusal.message.empty());
    return refusal.status;
  }
}

Request Parse(const std::string& head) { return ParseHead(head, {}); }

TEST(HttpHead, ReadsWhatARequestSays) {
  const Request request = Parse(
      "POST /v1/models?a=b HTTP/1.1\r\nHost: x:1\r\nCONTENT-length: 12\r\nX-Empty:\r\n"
      "Accept: \t text/html \r\n\r\n");
  EXPECT_EQ(request.method, "POST");
  EXPECT_EQ(request.path, "/v1/models");
  EXPECT_EQ(request.query, "a=b");
  EXPECT_EQ(request.Get("host"), "x:1");
  EXPECT_EQ(request.Get("Accept"), "text/html");
  EXPECT_EQ(request.Get("x-empty"), "");
  EXPECT_EQ(request.length, 12u);
  EXPECT_TRUE(request.keep_alive);
  EXPECT_FALSE(request.chunked);
}

TEST(HttpHead, KnowsWhetherTheConnectionStays) {
  const std::string get = "GET / HTTP/1.", host = "\r\nHost: x\r\n";
  EXPECT_TRUE(Parse(get + "1" + host + "\r\n").keep_alive);
  EXPECT_FALSE(Parse(get + "1" + host + "Connection: a, Close\r\n\r\n").keep_alive);
  EXPECT_FALSE(Parse(get + "0" + host + "\r\n").keep_alive);
  EXPECT_TRUE(Parse(get + "0" + host + "Connection: Keep-Alive\r\n\r\n").keep_alive);
  EXPECT_FALSE(Parse(get + "0\r\n\r\n").keep_alive);  // needs no Host
}

TEST(HttpHead, RefusesWhatCouldBeReadInTwoWays) {
  const std::string post = "POST / HTTP/1.1\r\nHost: x\r\n";
  EXPECT_EQ(RefusedWith(post + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"), 400);
  EXPECT_EQ(RefusedWith(post + "Content-Length: 1\r\nContent-Length: 2\r\n\r\n"), 400);
  EXPECT_EQ(RefusedWith(post + "Content-Length: 1\r\ncontent-length: 1\r\n\r\n"), 400);
  EXPECT_EQ(RefusedWith(post + "Content-Length: 1, 1\r\n\r\n"), 400);
  EXPECT_EQ(RefusedWith(post + "Content-Length: +1\r\n\r\n"), 400);
  EXPECT_EQ(RefusedWith(post + "Content-Length: 0x1\r\n\r\n"), 400);
  EXPECT_EQ(RefusedWith(post + "Content-Length:\r\n\r\n"), 400);
  EXPECT_EQ(RefusedWith(post + "Content-Length: 99999999999999999999\r\n\r\n"), 413);
  EXPECT_EQ(RefusedWith(post + "Content-Length : 1\r\n\r\n"), 400);
  EXPECT_EQ(RefusedWith(post + "Transfer-Encoding: gzip, chunked\r\n\r\n"), 501);
  EXPECT_EQ(RefusedWith(post + "Transfer-Encoding: xchunked\r\n\r\n"), 501);
  EXPECT_EQ(RefusedWith(post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"),
            400);
  EXPECT_EQ(RefusedWith("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"), 501);
  EXPECT_EQ(RefusedWith(post + "A: b\r\n c\r\n\r\n"), 400);       // a field over two lines
  EXPECT_EQ(RefusedWith(post + "Host: y\r\n\r\n"), 400);          // two hosts
  EXPECT_EQ(RefusedWith("GET / HTTP/1.1\r\nA: b\r\n\r\n"), 400);  // none
  EXPECT_EQ(RefusedWith("GET / HTTP/1.1\nHost: x\n\n"), 400);
  EXPECT_EQ(RefusedWith(post + "A: b\rContent-Length: 1\r\n\r\n"), 400);
  EXPECT_EQ(RefusedWith(post + std::string("A: b\0c\r\n\r\n", 10)), 400);
  EXPECT_EQ(RefusedWith(post + "No colon\r\n\r\n"), 400);
  EXPECT_EQ(RefusedWith(post + ": empty\r\n\r\n"), 400);
}

TEST(HttpHead, RefusesOtherRequestLines) {
  const std::string rest = "\r\nHost: x\r\n\r\n";
  EXPECT_EQ(RefusedWith("GET / HTTP/1.1" + rest), 0);
  EXPECT_EQ(RefusedWith("OPTIONS * HTTP/1.1" + rest), 0);
  EXPECT_EQ(RefusedWith("GET /" + rest), 400);
  EXPECT_EQ(RefusedWith("GET" + rest), 400);
  EXPECT_EQ(RefusedWith("GET / HTTP/2.0" + rest), 505);
  EXPECT_EQ(RefusedWith("GET / http/1.1" + rest), 400);
  EXPECT_EQ(RefusedWith("GET http://other/ HTTP/1.1" + rest), 400);
  EXPECT_EQ(RefusedWith("GET /a b HTTP/1.1" + rest), 400);
  EXPECT_EQ(RefusedWith("GET /\xC3\xA4 HTTP/1.1" + rest), 400);
  EXPECT_EQ(RefusedWith("G(T / HTTP/1.1" + rest), 400);
  EXPECT_EQ(RefusedWith("AVERYLONGMETHODNAME / HTTP/1.1" + rest), 400);
  EXPECT_EQ(RefusedWith("GET /" + std::string(5000, 'a') + " HTTP/1.1" + rest), 414);
}

TEST(HttpHead, HasLimits) {
  std::string many = "GET / HTTP/1.1\r\nHost: x\r\n";
  for (int i = 0; i < 99; ++i) many += "a: b\r\n";
  EXPECT_EQ(RefusedWith(many + "\r\n"), 0);
  EXPECT_EQ(RefusedWith(many + "a: b\r\n\r\n"), 431);
  const std::string large =
      "GET / HTTP/1.1\r\nHost: x\r\na: " + std::string(16 << 10, 'b') + "\r\n\r\n";
  EXPECT_EQ(RefusedWith(large), 431);
  EXPECT_EQ(RefusedWith(large, {.bytes = 20 << 10}), 0);
}

TEST(HttpHead, FindsTheEndWhereverTheBytesAreCut) {
  const std::string head = "GET / HTTP/1.1\r\nHost: x\r\n\r\n", more = "GET";
  for (size_t cut = 0; cut < head.size(); ++cut) {
    size_t scanned = 0;
    EXPECT_EQ(FindHeadEnd(head.substr(0, cut), scanned), std::nullopt);
    EXPECT_EQ(FindHeadEnd(head + more, scanned), head.size());
  }
}

TEST(HttpHead, TakesAnyBytesWithoutHarm) {
  std::mt19937 random(5);
  const std::string words[] = {
      "GET ", "/", " HTTP/1.1",         "\r\n",    "\r",   "\n", "Host: x",
      ": ",   " ", "Content-Length: 3", "chunked", "\xFF", "a",  "Transfer-Encoding: chunked"};
  int taken = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string head = random() % 2 ? "GET / HTTP/1.1\r\nHost: x\r\n" : "";
    for (unsigned i = random() % 8; i > 0; --i) head += words[random() % std::size(words)];
    taken += RefusedWith(head + "\r\n\r\n") == 0;
  }
  EXPECT_GT(taken, 100);
}

}  // namespace
}  // namespace oort::serve::http
