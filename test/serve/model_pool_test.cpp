// SPDX-License-Identifier: MIT
#include "serve/model_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>

#include "kit/errors.h"

namespace oort::serve {
namespace {

using namespace std::chrono_literals;

/// Models of so many bytes, which count themselves.
struct Shelf {
  std::atomic<int> alive = 0, loads = 0;
  std::atomic<bool> broken = false;

  struct Book : Resident {
    Book(Shelf& of, size_t size) : shelf(of), held(size) { ++shelf.alive; }
    ~Book() override { --shelf.alive; }
    size_t bytes() const override { return held; }
    Shelf& shelf;
    size_t held;
  };

  ModelSource Source(const std::string& name, size_t bytes, size_t guess) {
    return {.name = name,
            .load = [this, bytes]() -> std::unique_ptr<Resident> {
              ++loads;
              if (broken) throw Error(ErrorCode::kInvalidModel, "broken");
              return std::make_unique<Book>(*this, bytes);
            },
            .guessed_bytes = guess};
  }
};

struct Asked {
  std::promise<ModelPool::Lease> promise;
  std::future<ModelPool::Lease> future = promise.get_future();
  std::atomic<bool> wanted = true;
};

std::shared_ptr<Asked> Ask(ModelPool& pool, size_t model, size_t bytes = 0) {
  const auto asked = std::make_shared<Asked>();
  pool.Ask(
      model, bytes, [asked] { return asked->wanted.load(); },
      [asked](ModelPool::Lease lease, const std::exception_ptr& failure) {
        if (failure) {
          asked->promise.set_exception(failure);
        } else {
          asked->promise.set_value(std::move(lease));
        }
      });
  return asked;
}

ModelPool::Lease Get(ModelPool& pool, size_t model) { return Ask(pool, model)->future.get(); }

bool Waits(const std::shared_ptr<Asked>& asked) {
  return asked->future.wait_for(50ms) == std::future_status::timeout;
}

TEST(ModelPool, AnAskerThatFailsEndsNothingElse) {
  for (const bool broken : {false, true}) {
    Shelf shelf;
    shelf.broken = broken;
    ModelPool pool({shelf.Source("a", 40, 40), shelf.Source("b", 40, 40)}, {.memory = 100});
    pool.Ask(
        0, 0, [] { return true; },
        [](const ModelPool::Lease&, const std::exception_ptr&) { throw std::bad_alloc(); });
    const std::shared_ptr<Asked> next = Ask(pool, 1);
    if (broken) {
      testing::ExpectThrows([&] { next->future.get(); }, ErrorCode::kInvalidModel, "broken");
    } else {
      EXPECT_EQ(next->future.get()->bytes(), 40u);
    }
  }
}

TEST(ModelPool, UnloadsWhatWasNotUsedForTheLongestTime) {
  Shelf shelf;
  ModelPool pool({shelf.Source("a", 40, 40), shelf.Source("b", 40, 40), shelf.Source("c", 40, 40)},
                 {.memory = 100});
  EXPECT_EQ(pool.Look(0).state, ModelState::kUnloaded);
  Get(pool, 0);
  Get(pool, 1);
  Get(pool, 0);
  EXPECT_EQ(pool.used(), 80u);
  Get(pool, 2);
  EXPECT_EQ(pool.Look(0).state, ModelState::kLoaded);
  EXPECT_EQ(pool.Look(1).state, ModelState::kUnloaded);
  EXPECT_EQ(pool.Look(2).state, ModelState::kLoaded);
  EXPECT_EQ(shelf.alive, 2);
  EXPECT_EQ(shelf.loads, 3);
  EXPECT_FALSE(pool.Peek(1));
  EXPECT_TRUE(pool.Peek(2));
}

TEST(ModelPool, LoadsOnceForAllWhoAsk) {
  Shelf shelf;
  std::promise<void> go;
  ModelSource slow = shelf.Source("a", 1, 1);
  slow.load = [load = slow.load, wait = go.get_future().share()] {
    wait.wait();
    return load();
  };
  ModelPool pool({slow}, {});
  std::vector<std::shared_ptr<Asked>> asked;
  for (int i = 0; i < 8; ++i) asked.push_back(Ask(pool, 0));
  go.set_value();
  for (const auto& one : asked) EXPECT_TRUE(one->future.get());
  EXPECT_EQ(shelf.loads, 1);
}

TEST(ModelPool, AModelInUseStaysAndWhoNeedsItsRoomWaits) {
  Shelf shelf;
  ModelPool pool({shelf.Source("a", 60, 60), shelf.Source("b", 60, 60)}, {.memory = 100});
  ModelPool::Lease a = Get(pool, 0);
  const auto b = Ask(pool, 1);
  EXPECT_TRUE(Waits(b));
  EXPECT_EQ(shelf.alive, 1);
  // Who comes later for the first waits behind the second, which would never get its room else.
  const auto again = Ask(pool, 0);
  EXPECT_TRUE(Waits(again));
  a.reset();
  ModelPool::Lease lease = b->future.get();
  EXPECT_EQ(shelf.alive, 1);
  EXPECT_TRUE(Waits(again));
  lease.reset();
  EXPECT_TRUE(again->future.get());
  EXPECT_EQ(shelf.loads, 3);
}

TEST(ModelPool, AModelThatCannotBeLoadedLeavesTheOthers) {
  Shelf good, bad;
  bad.broken = true;
  std::atomic<int> told = 0;
  ModelPool pool({good.Source("good", 10, 10), bad.Source("bad", 10, 10)},
                 {.retry_time = 0ms, .on_failure = [&](std::string_view name, const Error&) {
                    told += name == "bad";
                  }});
  EXPECT_TRUE(Get(pool, 0));
  testing::ExpectThrows([&] { Get(pool, 1); }, ErrorCode::kInvalidModel, "broken");
  EXPECT_EQ(pool.Look(1).state, ModelState::kFailed);
  EXPECT_TRUE(Get(pool, 0));
  bad.broken = false;
  EXPECT_TRUE(Get(pool, 1));
  EXPECT_EQ(told, 1);
}

TEST(ModelPool, AFailureIsNotTriedAgainAtOnce) {
  Shelf shelf;
  shelf.broken = true;
  ModelPool pool({shelf.Source("bad", 10, 10)}, {.retry_time = 1h});
  for (int i = 0; i < 5; ++i) {
    testing::ExpectThrows([&] { Get(pool, 0); }, ErrorCode::kInvalidModel, "broken");
  }
  EXPECT_EQ(shelf.loads, 1);
}

TEST(ModelPool, KeepsToItsLimitWhateverWasGuessed) {
  Shelf shelf;
  ModelPool pool({shelf.Source("a", 60, 0), shelf.Source("b", 60, 0), shelf.Source("c", 101, 0)},
                 {.memory = 100});
  ModelPool::Lease a = Get(pool, 0);
  const auto b = Ask(pool, 1);
  EXPECT_TRUE(Waits(b));
  EXPECT_EQ(pool.used(), 60u);
  a.reset();
  EXPECT_TRUE(b->future.get());
  EXPECT_EQ(pool.used(), 60u);
  testing::ExpectThrows([&] { Get(pool, 2); }, ErrorCode::kLimit, "models may take");
  EXPECT_LE(pool.used(), 100u);
}

TEST(ModelPool, OneThatStaysIsNeverUnloaded) {
  Shelf shelf;
  ModelSource stays = shelf.Source("a", 60, 0);
  stays.stays = true;
  ModelPool pool({stays, shelf.Source("b", 30, 30), shelf.Source("c", 50, 50)}, {.memory = 100});
  EXPECT_EQ(pool.Look(0).state, ModelState::kLoaded);
  EXPECT_TRUE(Get(pool, 1));
  testing::ExpectThrows([&] { Get(pool, 2); }, ErrorCode::kLimit, "models may take");
  EXPECT_EQ(pool.Look(0).loads, 1);
}

TEST(ModelPool, ForgetsWhoHasLeft) {
  Shelf shelf;
  ModelPool pool({shelf.Source("a", 60, 60), shelf.Source("b", 60, 60)}, {.memory = 100});
  ModelPool::Lease a = Get(pool, 0);
  const auto b = Ask(pool, 1);
  EXPECT_TRUE(Waits(b));
  b->wanted = false;
  EXPECT_TRUE(Get(pool, 0));  // nobody needs its room any more
  a.reset();
  EXPECT_EQ(shelf.loads, 1);
}

TEST(ModelPool, BoundsWhoWaits) {
  Shelf shelf;
  ModelPool pool({shelf.Source("a", 60, 60), shelf.Source("b", 60, 60)},
                 {.memory = 100, .most_waiting = 3, .most_bytes = 100});
  const ModelPool::Lease a = Get(pool, 0);
  const auto first = Ask(pool, 1, 60);
  testing::ExpectThrows([&] { Ask(pool, 1, 60); }, ErrorCode::kLimit, "too many");
  const auto second = Ask(pool, 1, 20), third = Ask(pool, 1, 20);
  testing::ExpectThrows([&] { Ask(pool, 1, 0); }, ErrorCode::kLimit, "too many");
  pool.Stop();
  testing::ExpectThrows([&] { first->future.get(); }, ErrorCode::kCancelled, "about to end");
  testing::ExpectThrows([&] { Ask(pool, 1); }, ErrorCode::kCancelled, "about to end");
}

}  // namespace
}  // namespace oort::serve
