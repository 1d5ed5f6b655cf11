// SPDX-License-Identifier: MIT
#include "layers/shape/strided_copy.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <random>

namespace oort {
namespace {

std::vector<std::byte> Numbered(size_t bytes) {
  std::vector<std::byte> data(bytes);
  uint32_t state = 1;
  for (std::byte& byte : data) {
    state = state * 1664525u + 1013904223u;
    byte = static_cast<std::byte>(state >> 24);
  }
  return data;
}

/// Element by element, straight from the definition of Strided.
void CopyNaively(size_t item, const std::byte* source, const Strided& from, std::byte* target,
                 const Strided& to) {
  if (from.IsEmpty()) return;
  std::vector<int64_t> at(static_cast<size_t>(from.rank()), 0);
  while (true) {
    int64_t source_index = from.offset(), target_index = to.offset();
    for (int i = 0; i < from.rank(); ++i) {
      source_index += at[static_cast<size_t>(i)] * from[i].stride;
      target_index += at[static_cast<size_t>(i)] * to[i].stride;
    }
    std::memcpy(target + target_index * static_cast<int64_t>(item),
                source + source_index * static_cast<int64_t>(item), item);
    int axis = from.rank() - 1;
    while (axis >= 0 && ++at[static_cast<size_t>(axis)] == from[axis].extent) {
      at[static_cast<size_t>(axis--)] = 0;
    }
    if (axis < 0) return;
  }
}

int64_t CountOf(const Strided& view) {
  int64_t count = 1;
  for (const Strided::Axis& axis : view.axes()) count *= axis.extent;
  return count;
}

/// Compares with the naive copy for all item sizes and on one and three threads.
void ExpectCopies(const Shape& source_shape, const Strided& from, const Shape& target_shape,
                  const Strided& to) {
  for (size_t item : {1, 2, 4, 8, 16}) {
    // One byte more than needed: elements need not be aligned.
    const auto source = Numbered(static_cast<size_t>(source_shape.elements()) * item + 1);
    const size_t target_bytes = static_cast<size_t>(target_shape.elements()) * item;
    std::vector<std::byte> expected(target_bytes + 1, std::byte{0xcd});
    CopyNaively(item, source.data() + 1, from, expected.data() + 1, to);
    for (int threads : {1, 3}) {
      std::vector<std::byte> got(target_bytes + 1, std::byte{0xcd});
      CopyStrided(Context(threads, {}), item, source.data() + 1, from, got.data() + 1, to);
      EXPECT_TRUE(got == expected)
          << "item " << item << ", threads " << threads << ", shape " << source_shape.ToString();
    }
  }
}

void ExpectGathers(const Shape& shape, const Strided& view) {
  ExpectCopies(shape, view, Shape{CountOf(view)}, Strided::DenseLike(view));
}

TEST(StridedCopy, PermutesEveryOrderOfFourAxes) {
  const Shape shape{3, 2, 5, 7};
  std::vector<int> order = {0, 1, 2, 3};
  do {
    ExpectGathers(shape, Strided(shape).Permuted(order));
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(StridedCopy, TransposesAroundTheTile) {
  for (int64_t rows : {1, 2, 31, 32, 33, 65, 200}) {
    for (int64_t columns : {1, 3, 32, 33, 100}) {
      ExpectGathers({rows, columns}, Strided(Shape{rows, columns}).Swapped(0, 1));
    }
  }
  ExpectGathers({3, 70, 40}, Strided(Shape{3, 70, 40}).Swapped(1, 2));
  ExpectGathers({300, 500}, Strided(Shape{300, 500}).Swapped(0, 1));  // shared between threads
}

TEST(StridedCopy, CutsLongRuns) {
  const Shape shape{300000};
  ExpectGathers(shape, Strided(shape));
  ExpectGathers(shape, Strided(shape).Sliced(0, 7, 250001));
  ExpectGathers(shape, Strided(shape).Sliced(0, 1, 140000, 2));
  ExpectGathers(shape, Strided(shape).Flipped(0));
}

TEST(StridedCopy, RepeatsItemsAndRows) {
  ExpectGathers({1}, Strided(Shape{1}).Broadcast({200000}));
  ExpectGathers({3, 1}, Strided(Shape{3, 1}).Broadcast({2, 3, 5}));
  ExpectGathers({1, 7}, Strided(Shape{1, 7}).Broadcast({4, 7}));
  ExpectGathers({}, Strided(Shape{}).Broadcast({2, 3}));
}

TEST(StridedCopy, MovesShortRunsAsOneItem) {
  for (int64_t run : {1, 2, 3, 4, 5, 8, 16}) {
    ExpectGathers({5, 6, run}, Strided(Shape{5, 6, run}).Swapped(0, 1));
    ExpectGathers({5, 6, run}, Strided(Shape{5, 6, run}).Flipped(1));
  }
}

TEST(StridedCopy, WritesIntoAPartOfTheTarget) {
  const Shape part{4, 3, 5}, whole{4, 9, 5};
  ExpectCopies(part, Strided(part), whole, Strided(whole).Sliced(1, 2, 3));
  ExpectCopies(part, Strided(part), whole, Strided(whole).Sliced(1, 1, 3, 3));
  const Shape row{4, 9};
  ExpectCopies(row, Strided(row), whole, Strided(whole).Selected(2, 3));
  const Shape vector{4};
  ExpectCopies(vector, Strided(vector), {6, 6}, Strided(Shape{6, 6}).Diagonal(2, 0, 4));
}

TEST(StridedCopy, CopiesNothingFromNothing) {
  std::byte untouched{0xcd};
  CopyStrided(Context(1, {}), 4, nullptr, Strided(Shape{3, 0, 2}), nullptr);
  CopyBytes(Context(1, {}), nullptr, &untouched, 0);
  EXPECT_EQ(untouched, std::byte{0xcd});
}

TEST(StridedCopy, AgreesOnRandomViews) {
  std::mt19937 random(7);
  const auto draw = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random() % static_cast<uint32_t>(high - low + 1));
  };
  for (int round = 0; round < 300; ++round) {
    Shape shape;
    for (int64_t rank = draw(0, 5); rank > 0; --rank)
      shape.Append(draw(0, 9) == 0 ? 0 : draw(1, 6));
    Strided view(shape);
    for (int64_t steps = draw(1, 5); steps > 0; --steps) {
      if (view.rank() == 0 || view.rank() > 6) break;
      const int axis = static_cast<int>(draw(0, view.rank() - 1));
      const int64_t extent = view[axis].extent;
      switch (draw(0, 5)) {
        case 0: view = view.Flipped(axis); break;
        case 1: view = view.Swapped(axis, static_cast<int>(draw(0, view.rank() - 1))); break;
        case 2: view = view.Repeated(axis, draw(1, 3)); break;
        case 3:
          if (extent > 0) view = view.Selected(axis, draw(0, extent - 1));
          break;
        case 4: {
          const int64_t start = draw(0, extent), step = draw(1, 3);
          const int64_t most = (extent - start + step - 1) / step;
          view = view.Sliced(axis, start, draw(0, most), step);
          break;
        }
        default:
          if (extent % 2 == 0) view = view.Split(axis, 2, extent / 2);
      }
    }
    ExpectGathers(shape, view);
  }
}

TEST(Strided, KnowsWhatIsDense) {
  const Shape shape{2, 3, 4};
  EXPECT_TRUE(Strided(shape).IsDense());
  EXPECT_TRUE(Strided(shape).Sliced(0, 1, 1).IsDense());
  EXPECT_TRUE(Strided(shape).Selected(0, 1).IsDense());
  EXPECT_EQ(Strided(shape).Selected(0, 1).offset(), 12);
  EXPECT_TRUE(Strided(shape).Split(2, 2, 2).IsDense());
  EXPECT_TRUE(Strided(shape).Sliced(1, 0, 0).IsDense());
  EXPECT_TRUE(Strided(Shape{1, 3, 1, 4}).Swapped(1, 2).IsDense());
  EXPECT_FALSE(Strided(shape).Sliced(1, 0, 2).IsDense());
  EXPECT_FALSE(Strided(shape).Swapped(1, 2).IsDense());
  EXPECT_FALSE(Strided(shape).Flipped(2).IsDense());
  EXPECT_FALSE(Strided(Shape{1}).Broadcast({2}).IsDense());
}

}  // namespace
}  // namespace oort
