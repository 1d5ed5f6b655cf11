// SPDX-License-Identifier: MIT
// Ranks over TCP: what they exchange, how they fail, and whom they let in.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <thread>

#include "collectives/tcp/connections.h"
#include "collectives/tcp/handshake.h"
#include "collectives/tcp/sha256.h"
#include "collectives/tcp/tcp_group.h"
#include "llm/each_rank.h"
#include "oort/error.h"

namespace oort {
namespace {

using tcp::Address;
using tcp::After;
using tcp::Socket;

constexpr const char* kSecret = "a secret that all ranks know";

std::string HexOf(const tcp::Digest256& digest) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const std::byte byte : digest) {
    text += kDigits[std::to_integer<size_t>(byte) / 16];
    text += kDigits[std::to_integer<size_t>(byte) % 16];
  }
  return text;
}

std::string Sha256Of(std::string_view text) {
  tcp::Sha256 hash;
  hash.Add(std::as_bytes(std::span(text)));
  return HexOf(hash.Finish());
}

std::string HmacOf(std::string_view key, std::string_view text) {
  return HexOf(tcp::HmacSha256(std::as_bytes(std::span(key)), std::as_bytes(std::span(text))));
}

TEST(Sha256, IsThatOfTheStandard) {
  EXPECT_EQ(Sha256Of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Sha256Of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Sha256Of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(Sha256Of(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, HmacIsThatOfRfc4231) {
  EXPECT_EQ(HmacOf(std::string(20, '\x0b'), "Hi There"),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(HmacOf("Jefe", "what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(
      HmacOf(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First"),
      "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

/// A port of this machine that nobody uses.
std::string FreeAddress() { return Socket::Listen({"127.0.0.1", 0}).Local().Text(); }

TcpOptions OptionsFor(int rank, int ranks, const std::string& address, double deadline = 60) {
  TcpOptions options;
  options.rank = rank;
  options.ranks = ranks;
  options.address = address;
  options.secret = kSecret;
  options.deadline = deadline;
  return options;
}

/// What each rank threw; empty where it came to its end.
std::vector<std::string> OverTcp(int ranks, double deadline,
                                 const std::function<void(Collective&)>& body) {
  const std::string address = FreeAddress();
  return ErrorsOfRanks(ranks, [&](int rank) {
    const auto group = JoinTcp(OptionsFor(rank, ranks, address, deadline));
    body(*group);
  });
}

void ExpectIn(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(TcpCollective, ManyExchangesOfAllSizesStayApart) {
  const auto errors =
      OverTcp(4, 60, [](Collective& group) { ExchangeManyTimes(group, 100, 5000, 20000); });
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}

TEST(TcpCollective, MessagesOfMegabytesGoBothWaysAtOnce) {
  const auto errors = OverTcp(2, 60, [](Collective& group) {
    std::vector<float> values(4 << 20, static_cast<float>(group.rank() + 1));
    group.AllReduce("a large sum", values);
    ASSERT_EQ(values.back(), 3);
  });
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}

TEST(TcpCollective, PassesFromOneRankToTheNext) {
  const auto errors = OverTcp(3, 60, [](Collective& group) {
    for (int turn = 0; turn < 50; ++turn) {
      std::vector<std::byte> bytes(static_cast<size_t>(turn), std::byte{0});
      if (group.rank() == 0) bytes.assign(bytes.size(), std::byte{9});
      group.Pass("first", bytes, 0, 1);
      group.Pass("second", bytes, 1, 2);
      for (const std::byte byte : bytes) ASSERT_EQ(byte, std::byte{9});
    }
    group.Barrier("the end");
  });
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}

TEST(TcpCollective, ARankThatFailsEndsAllWithItsWords) {
  const auto errors = OverTcp(3, 60, [](Collective& group) {
    if (group.rank() == 1) {
      group.Fail("there is no such file");
      return;
    }
    group.Barrier("the start");
  });
  EXPECT_EQ(errors[0], RankName(1, HostName()) + ": there is no such file");
  EXPECT_EQ(errors[2], errors[0]);
}

TEST(TcpCollective, ARankThatLeavesIsNamed) {
  const auto errors = OverTcp(3, 60, [](Collective& group) {
    if (group.rank() != 1) group.Barrier("oort.AllReduce 'a'");
  });
  for (const size_t rank : {0, 2}) {
    ExpectIn(errors[rank], "rank 1 (");
    ExpectIn(errors[rank], "has ended its connection");
    ExpectIn(errors[rank], "oort.AllReduce 'a'");
  }
}

TEST(TcpCollective, WhoLooksAfterTheOthersHearsOfOneThatFailsOrLeaves) {
  for (const bool tells : {true, false}) {
    const auto errors = OverTcp(2, 60, [&](Collective& group) {
      group.Poll("a step");  // nothing is wrong yet
      group.Barrier("the start");
      if (group.rank() == 1) {
        if (tells) group.Fail("its GPU is gone");
        return;
      }
      while (true) group.Poll("a step");
    });
    ExpectIn(errors[0], tells ? "its GPU is gone" : "rank 1");
  }
}

TEST(TcpCollective, ARankThatHangsIsNamedWithinTheDeadline) {
  std::atomic<int> done = 0;
  const auto errors = OverTcp(3, 0.3, [&](Collective& group) {
    if (group.rank() == 2) {
      while (done < 2) std::this_thread::sleep_for(std::chrono::milliseconds(10));
      return;
    }
    try {
      group.Barrier("the start");
    } catch (...) {
      ++done;
      throw;
    }
  });
  for (const size_t rank : {0, 1}) {
    ExpectIn(errors[rank], "waited 0.3 s in the start for");
    ExpectIn(errors[rank], "rank 2 (");
  }
}

TEST(TcpCollective, RanksAtDifferentPlacesEndAll) {
  const auto errors = OverTcp(2, 60, [](Collective& group) {
    group.Barrier(group.rank() == 0 ? "one place" : "another place");
  });
  for (const std::string& error : errors) ExpectIn(error, "do not compute the same model");
}

TEST(TcpJoin, WhatMakesNoSenseIsRefused) {
  const auto refused = [](TcpOptions options) {
    try {
      JoinTcp(options);
      return std::string();
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  TcpOptions options = OptionsFor(0, 2, "127.0.0.1:1");
  options.secret = "short";
  ExpectIn(refused(options), "16 characters");
  ExpectIn(refused(OptionsFor(2, 2, "127.0.0.1:1")), "no rank 2 of 2");
  ExpectIn(refused(OptionsFor(0, 65, "127.0.0.1:1")), "2 to 64");
  ExpectIn(refused(OptionsFor(0, 2, "nowhere")), "HOST:PORT");
  ExpectIn(refused(OptionsFor(0, 2, "127.0.0.1:99999")), "HOST:PORT");
}

TEST(TcpJoin, WhoDoesNotComeIsNamed) {
  TcpOptions options = OptionsFor(0, 3, FreeAddress());
  options.join = 0.2;
  try {
    JoinTcp(options);
    FAIL() << "it joined";
  } catch (const Error& error) {
    ExpectIn(error.what(), "rank 1, 2 did not come to 127.0.0.1:");
  }
  options.rank = 1;
  EXPECT_THROW(JoinTcp(options), Error);
}

/// Rank 0 waits for rank 1, while others do what they like with its port.
class Door {
 public:
  Door() : listener_(Socket::Listen({"127.0.0.1", 0})), address_(listener_.Local()) {
    thread_ = std::thread([this] {
      try {
        arrived_ = tcp::Reception(listener_, self_, 1).Await(After(60)).size();
      } catch (const Error& error) {
        ADD_FAILURE() << error.what();
      }
    });
  }
  ~Door() {
    if (thread_.joinable()) Open();
  }
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;

  Socket Knock() const { return Socket::Connect(address_, After(20)); }
  /// What rank 1 of `ranks` is told that knows `secret`; empty where it is let in.
  std::string Enter(const std::string& secret, uint32_t ranks = 2, uint32_t rank = 1) const {
    const Socket socket = Knock();
    try {
      tcp::Introduce(socket, {rank, ranks, secret}, 0, 0, After(20));
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  }
  /// The real rank 1 comes.
  void Open() {
    EXPECT_EQ(Enter(kSecret), "");
    thread_.join();
    EXPECT_EQ(arrived_, 1U);
  }

 private:
  Socket listener_;
  Address address_;
  tcp::Membership self_{0, 2, kSecret};
  std::thread thread_;
  size_t arrived_ = 0;
};

template <typename T>
std::span<const std::byte> SpanOf(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

TEST(TcpHandshake, StrangersAreNotLetIn) {
  Door door;
  ExpectIn(door.Enter("another secret, as long as that"), "another secret");
  ExpectIn(door.Enter(kSecret, 3), "does not expect rank 1 of 3");
  ExpectIn(door.Enter(kSecret, 2, 0), "does not expect rank 0");
  ExpectIn(door.Enter(kSecret, 2, 7), "does not expect rank 7");
  door.Open();
}

TEST(TcpHandshake, AnotherVersionIsToldSo) {
  Door door;
  const Socket socket = door.Knock();
  tcp::Greeting greeting{};
  ASSERT_TRUE(socket.ReceiveAll(std::as_writable_bytes(std::span(&greeting, 1)), After(5)));
  tcp::Claim claim{};
  claim.magic = greeting.magic;
  claim.version = greeting.version + 1;
  claim.rank = 1;
  claim.ranks = 2;
  socket.SendAll(SpanOf(claim), After(5));
  tcp::Answer answer{};
  ASSERT_TRUE(socket.ReceiveAll(std::as_writable_bytes(std::span(&answer, 1)), After(5)));
  EXPECT_EQ(answer.verdict, tcp::Verdict::kWrongVersion);
  door.Open();

  // And the other way around: who listens is of another version.
  const Socket listener = Socket::Listen({"127.0.0.1", 0});
  const Address address = listener.Local();
  std::thread visitor([&] {
    const Socket coming = Socket::Connect(address, After(20));
    try {
      tcp::Introduce(coming, {1, 2, kSecret}, 0, 0, After(20));
      ADD_FAILURE() << "it was let in";
    } catch (const Error& error) {
      ExpectIn(error.what(), "runs another version of Oort");
    }
  });
  Socket caught;
  while (!caught.open()) caught = listener.Accept();
  ++greeting.version;
  caught.SendAll(SpanOf(greeting), After(5));
  visitor.join();
}

TEST(TcpHandshake, GarbageAndSilenceHoldUpNobody) {
  Door door;
  std::vector<Socket> silent;
  for (int i = 0; i < 100; ++i) silent.push_back(door.Knock());  // more than it hears at once
  std::mt19937 random(7);
  for (int turn = 0; turn < 200; ++turn) {
    const Socket socket = door.Knock();
    std::vector<std::byte> garbage(random() % 300);
    for (std::byte& byte : garbage) byte = static_cast<std::byte>(random());
    // Half of them begin as a rank would.
    if (turn % 2 == 0 && garbage.size() >= 8) std::memcpy(garbage.data(), "OORTRANK", 8);
    socket.SendAll(garbage, After(1));
  }
  door.Open();
}

TEST(TcpHandshake, ARecordedClaimIsWorthNothing) {
  Door door;
  // What rank 1 says to a listener of ours is heard, and said to the real one.
  const Socket false_listener = Socket::Listen({"127.0.0.1", 0});
  const Address false_address = false_listener.Local();
  tcp::Greeting greeting{};
  std::memcpy(greeting.magic.data(), "OORTRANK", 8);
  greeting.version = 1;
  tcp::Claim recorded{};
  std::string told;
  std::thread victim([&] {
    const Socket socket = Socket::Connect(false_address, After(20));
    try {
      tcp::Introduce(socket, {1, 2, kSecret}, 0, 0, After(20));
      told = "it was let in";
    } catch (const Error& error) {
      told = error.what();
    }
  });
  Socket caught;
  while (!caught.open()) caught = false_listener.Accept();
  caught.SendAll(SpanOf(greeting), After(5));
  ASSERT_TRUE(caught.ReceiveAll(std::as_writable_bytes(std::span(&recorded, 1)), After(5)));
  // Whoever does not know the secret cannot pass for rank 0 either, not with the claim's own proof.
  tcp::Answer answer{};
  std::memcpy(answer.magic.data(), "OORTRANK", 8);
  answer.verdict = tcp::Verdict::kWelcome;
  answer.proof = recorded.proof;
  caught.SendAll(SpanOf(answer), After(5));
  victim.join();
  ExpectIn(told, "another secret");

  const Socket again = door.Knock();
  tcp::Greeting fresh{};
  ASSERT_TRUE(again.ReceiveAll(std::as_writable_bytes(std::span(&fresh, 1)), After(5)));
  EXPECT_NE(fresh.nonce, greeting.nonce);
  again.SendAll(SpanOf(recorded), After(5));
  ASSERT_TRUE(again.ReceiveAll(std::as_writable_bytes(std::span(&answer, 1)), After(5)));
  EXPECT_EQ(answer.verdict, tcp::Verdict::kWrongSecret);
  EXPECT_EQ(answer.proof, tcp::Digest256{});  // nothing that helps to guess
  door.Open();
}

/// Rank 1 knows the secret and then sends what it likes.
std::string WithRawRank(const std::function<void(const Socket&)>& send,
                        const std::function<void(Collective&)>& body) {
  const std::string address = FreeAddress();
  std::thread raw([&] {
    const std::vector<Socket> sockets = tcp::ConnectRanks(OptionsFor(1, 2, address));
    send(sockets[0]);
  });
  std::string told;
  try {
    const auto group = JoinTcp(OptionsFor(0, 2, address, 5));
    body(*group);
  } catch (const Error& error) {
    told = error.what();
  }
  raw.join();
  return told;
}

/// As tcp_group.cpp has it.
struct RawFrame {
  uint32_t kind = 0x4f444154, place = 0;
  uint64_t turn = 1, bytes = 0, unused = 0;
};

RawFrame FrameFor(std::string_view what, uint64_t turn, uint64_t bytes) {
  RawFrame frame;
  frame.place = 2166136261U;
  for (const char c : what) {
    frame.place = (frame.place ^ static_cast<unsigned char>(c)) * 16777619U;
  }
  frame.turn = turn;
  frame.bytes = bytes;
  return frame;
}

void SendHost(const Socket& socket) {
  socket.SendAll(SpanOf(FrameFor("the start of the ranks", 1, 64)), After(5));
  socket.SendAll(std::vector<std::byte>(64, std::byte{'h'}), After(5));
}

TEST(TcpCollective, FramesThatMakeNoSenseEndTheGroup) {
  std::mt19937_64 random(11);
  for (int turn = 0; turn < 60; ++turn) {
    RawFrame frame;
    std::vector<std::byte> bytes(random() % 200);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    frame.place = static_cast<uint32_t>(random());
    frame.bytes = turn % 3 == 0 ? random() : random() % 100;
    frame.turn = turn % 2 == 0 ? 1 : random();
    if (turn % 5 == 0) frame.kind = static_cast<uint32_t>(random());
    if (turn % 7 == 0) frame.kind = 0x4f464149;  // a failure, of any length
    const std::string told = WithRawRank(
        [&](const Socket& socket) {
          socket.SendAll(SpanOf(frame), After(5));
          socket.SendAll(bytes, After(5));
        },
        [](Collective&) {});
    EXPECT_NE(told, "") << turn;
    EXPECT_LT(told.size(), 4096U);
    for (const char c : told) EXPECT_FALSE(static_cast<unsigned char>(c) < ' ') << turn;
  }
}

TEST(TcpCollective, HugeSizesAreRefusedOrTakeMemoryAsTheyCome) {
  const auto hear = [](uint64_t bytes) {
    return WithRawRank(
        [&](const Socket& socket) {
          SendHost(socket);
          socket.SendAll(SpanOf(FrameFor("news", 2, bytes)), After(5));
          socket.SendAll(std::vector<std::byte>(100), After(5));
        },
        [](Collective& group) {
          std::vector<std::byte> news;
          group.Broadcast("news", news, 1);
        });
  };
  ExpectIn(hear(uint64_t{1} << 62), "another exchange");
  ExpectIn(hear(Collective::kMostBroadcast), "has ended its connection");
}

}  // namespace
}  // namespace oort
