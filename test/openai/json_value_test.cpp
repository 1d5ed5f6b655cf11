// SPDX-License-Identifier: MIT
// The values that requests are read into.
#include "text/json.h"

#include <gtest/gtest.h>

#include "oort/error.h"

namespace oort::json {
namespace {

TEST(OrderedJson, KeepsTheOrderOfItsMembers) {
  OrderedJson value = ParseOrdered(R"({"z": 1, "a": {"y": [1, {"b": null}]}, "m": "text"})", "it");
  value["b"] = true;
  value["a"]["x"] = 2;
  EXPECT_EQ(value.dump(), R"({"z":1,"a":{"y":[1,{"b":null}],"x":2},"m":"text","b":true})");
  EXPECT_EQ(value.erase("z"), 1u);
  EXPECT_EQ(value.erase("z"), 0u);
  value.erase(value.find("m"));
  EXPECT_EQ(value.dump(), R"({"a":{"y":[1,{"b":null}],"x":2},"b":true})");
  const OrderedJson copy = value;
  value["a"] = nullptr;
  EXPECT_EQ(copy["a"]["x"], 2);
  EXPECT_FALSE(copy == value);
}

TEST(OrderedJson, ComparesWithText) {
  const OrderedJson value = {{"role", "user"}, {"n", 3}};
  EXPECT_TRUE(value["role"] == "user");
  EXPECT_FALSE(value["role"] != "user");
  EXPECT_TRUE(value["role"] != "use");
  EXPECT_FALSE(value["n"] == "3");
}

/// Who sends objects in objects with many members each would have all of them copied many times.
TEST(OrderedJson, CopiesNothingThatItHoldsWhenItGrows) {
  const std::string text(1000, 'x');
  OrderedJson value = {{"inner", {{"text", text}}}};
  const void* const before = value["inner"]["text"].get_ref<const std::string&>().data();
  for (int i = 0; i < 1000; ++i) value["a name that is long enough " + std::to_string(i)] = i;
  EXPECT_EQ(value["inner"]["text"].get_ref<const std::string&>().data(), before);
  value.erase("a name that is long enough 0");
  EXPECT_EQ(value["inner"]["text"].get_ref<const std::string&>().data(), before);
}

TEST(OrderedJson, RefusesAKeyThatStandsThereTwice) {
  EXPECT_THROW(ParseOrdered(R"({"a": 1, "b": {"c": 1, "c": 2}})", "it"), Error);
  EXPECT_NO_THROW(ParseOrdered(R"([{"a": 1}, {"a": 1, "b": {"a": 2}}])", "it"));
}

}  // namespace
}  // namespace oort::json
