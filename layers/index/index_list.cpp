// SPDX-License-Identifier: MIT
#include "layers/index/index_list.h"

#include <algorithm>
#include <charconv>

namespace oort {
namespace {

bool IsMask(DType dtype) { return dtype == DType::kBool || dtype == DType::kU8; }

/// Whether a nested list has these extents everywhere.
bool IsRegular(const Value& value, const Shape& shape, int depth) {
  if (!value.IsList()) return depth == shape.rank();
  const Value::List& list = value.AsList();
  if (depth == shape.rank() || static_cast<int64_t>(list.size()) != shape[depth]) return false;
  return std::all_of(list.begin(), list.end(),
                     [&](const Value& item) { return IsRegular(item, shape, depth + 1); });
}

bool HoldsBools(const Value& value) {
  if (!value.IsList()) return value.IsBool();
  return !value.AsList().empty() && HoldsBools(value.AsList().front());
}

template <typename T>
void Flatten(const Value& value, T*& target) {
  if (value.IsList()) {
    for (const Value& item : value.AsList()) Flatten(item, target);
  } else if constexpr (std::is_same_v<T, bool>) {
    *target++ = value.AsBool();
  } else {
    *target++ = value.AsInt();
  }
}

/// A list or a number as a tensor of i64 or bool.
Tensor ToTensor(const Value& value) {
  if (value.IsTensor()) return value.AsTensor();
  Shape shape;  // that of the first elements, with which all others must agree
  for (const Value* at = &value; at->IsList(); at = &at->AsList().front()) {
    shape.Append(static_cast<int64_t>(at->AsList().size()));
    if (at->AsList().empty()) break;
  }
  if (!IsRegular(value, shape, 0)) {
    throw Error(ErrorCode::kInvalidArgument, "an index list whose rows differ in length");
  }
  if (HoldsBools(value)) {
    Tensor mask(DType::kBool, shape);
    bool* target = mask.data<bool>();
    Flatten(value, target);
    return mask;
  }
  Tensor indices(DType::kI64, shape);
  int64_t* target = indices.data<int64_t>();
  Flatten(value, target);
  return indices;
}

/// The coordinates of the true elements, one tensor for each axis of the mask.
std::vector<Tensor> TrueCoordinates(const Tensor& mask) {
  const uint8_t* flags = reinterpret_cast<const uint8_t*>(mask.raw());
  const int64_t elements = mask.elements();
  const int64_t count = elements - std::count(flags, flags + elements, uint8_t{0});
  std::vector<Tensor> coordinates;
  std::vector<int64_t*> targets;
  for (int axis = 0; axis < mask.rank(); ++axis) {
    coordinates.emplace_back(DType::kI64, Shape{count});
    targets.push_back(coordinates.back().data<int64_t>());
  }
  for (int64_t i = 0; i < elements; ++i) {
    if (flags[i] == 0) continue;
    int64_t rest = i;
    for (int axis = mask.rank(); axis-- > 0;) {
      *targets[static_cast<size_t>(axis)]++ = rest % mask.shape()[axis];
      rest /= mask.shape()[axis];
    }
  }
  return coordinates;
}

void CheckMask(const Shape& x, int axis, const Tensor& mask) {
  bool fits = mask.rank() > 0 && mask.rank() <= x.rank() - axis;
  for (int i = 0; fits && i < mask.rank(); ++i) fits = mask.shape()[i] == x[axis + i];
  if (!fits) {
    throw Error(ErrorCode::kInvalidArgument, "a mask " + mask.shape().ToString() +
                                                 " does not fit shape " + x.ToString() +
                                                 " at axis " + std::to_string(axis));
  }
}

/// A recursive descent over "[", "]", ",", None, True, False and integers.
class ListParser {
 public:
  explicit ListParser(std::string_view text) : text_(text) {}

  Value::List Parse() {
    Value value = Item(0);
    if (!value.IsList() || at_ != text_.size()) Fail();
    return std::move(value.AsList());
  }

 private:
  static constexpr int kMostNesting = Shape::kMaxRank + 1;

  [[noreturn]] void Fail() const {
    throw Error(ErrorCode::kInvalidModel, "expected an index list, got '" +
                                              std::string(text_.substr(0, 80)) + "' (column " +
                                              std::to_string(at_ + 1) + ")");
  }

  bool Take(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  Value Item(int depth) {
    if (Take("[")) return Items(depth);
    if (Take("None")) return {};
    if (Take("True")) return true;
    if (Take("False")) return false;
    int64_t number = 0;
    const char* begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), number);
    if (error != std::errc()) Fail();
    at_ += static_cast<size_t>(end - begin);
    return number;
  }

  Value Items(int depth) {
    if (depth == kMostNesting) Fail();
    Value::List items;
    if (Take("]")) return items;
    do {
      items.push_back(Item(depth + 1));
    } while (Take(","));
    if (!Take("]")) Fail();
    return items;
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

std::vector<IndexedAxis> ResolveIndices(const Shape& x, const Value::List& indices) {
  std::vector<IndexedAxis> result;
  int axis = 0;
  for (const Value& entry : indices) {
    if (entry.IsNone()) {
      ++axis;
      continue;
    }
    const Tensor index = ToTensor(entry);
    if (IsMask(index.dtype())) {
      CheckMask(x, axis, index);
      for (Tensor& along : TrueCoordinates(index)) result.push_back({axis++, std::move(along)});
    } else if (IsInteger(index.dtype())) {
      result.push_back({axis++, index});
    } else {
      throw Error(ErrorCode::kInvalidArgument,
                  "expected integers or bools as an index, got " + index.ToString());
    }
  }
  if (axis > x.rank()) {
    throw Error(ErrorCode::kInvalidArgument,
                std::to_string(axis) + " indices for shape " + x.ToString());
  }
  return result;
}

bool DependsOnElements(const Value::List& indices) {
  return std::any_of(indices.begin(), indices.end(), [](const Value& entry) {
    return entry.IsTensor() && IsMask(entry.AsTensor().dtype()) && !entry.IsConcrete();
  });
}

Value::List ParseIndexList(std::string_view text) { return ListParser(text).Parse(); }

}  // namespace oort
