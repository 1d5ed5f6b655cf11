// SPDX-License-Identifier: MIT
// Numbers, words, dtypes and shapes as a .param has them: likely ones, and the ends of what can be.
#pragma once

#include <string>

#include "random.h"

namespace oort::fuzz {

inline std::string ExtremeNumber(Random& random) {
  static constexpr const char* kNumbers[] = {"0",
                                             "-1",
                                             "nan",
                                             "inf",
                                             "-inf",
                                             "1.5",
                                             "-0.5",
                                             "0.0",
                                             "1e-300",
                                             "1e300",
                                             "-1e308",
                                             "7",
                                             "-7",
                                             "255",
                                             "65536",
                                             "1048576",
                                             "2147483647",
                                             "2147483648",
                                             "-2147483648",
                                             "4294967296",
                                             "1099511627776",
                                             "4611686018427387904",
                                             "9223372036854775807",
                                             "-9223372036854775808",
                                             "9223372036854775806",
                                             "-9223372036854775807",
                                             "18446744073709551616",
                                             "3037000500",
                                             "1j",
                                             "1e19",
                                             "-1e19",
                                             "True"};
  return random.Pick(kNumbers);
}

inline std::string SmallNumber(Random& random) {
  static constexpr const char* kNumbers[] = {"0", "1", "2", "3", "4", "5", "-1", "-2", "-3"};
  return random.Pick(kNumbers);
}

inline std::string AnyDType(Random& random) {
  static constexpr const char* kDTypes[] = {"f32", "f64", "f16",  "bf16", "i8",   "u8", "i16",
                                            "i32", "i64", "bool", "c64",  "c128", "c32"};
  return random.Pick(kDTypes);
}

inline std::string AnyWord(Random& random) {
  static constexpr const char* kWords[] = {"None",
                                           "True",
                                           "False",
                                           "()",
                                           "[]",
                                           "zeros",
                                           "same",
                                           "valid",
                                           "reflect",
                                           "replicate",
                                           "circular",
                                           "linear",
                                           "bilinear",
                                           "bicubic",
                                           "nearest",
                                           "area",
                                           "constant",
                                           "mean",
                                           "sum",
                                           "max",
                                           "amax",
                                           "fro",
                                           "nuc",
                                           "tanh",
                                           "relu",
                                           "floor",
                                           "trunc",
                                           "torch.float",
                                           "torch.long",
                                           "torch.double",
                                           "torch.half",
                                           "torch.bool",
                                           "torch.complex64",
                                           "torch.uint8",
                                           "@0",
                                           "(1,2,3,4)",
                                           "(0,0)",
                                           "(-1)",
                                           "(1.5,2.5)",
                                           "[0,1]",
                                           "[None,@0]",
                                           "size(@0,0)",
                                           "ij,jk->ik",
                                           "...i,ij->...j",
                                           "hann",
                                           "ortho",
                                           "backward",
                                           "forward",
                                           "left",
                                           "right"};
  return random.Pick(kWords);
}

inline std::string SmallExtent(Random& random) {
  static constexpr const char* kExtents[] = {"0", "1", "1", "2", "2",  "3",  "3", "4",
                                             "5", "6", "7", "8", "16", "17", "33"};
  return random.Pick(kExtents);
}

/// "(2,3,4)".
inline std::string AnyShape(Random& random, size_t max_rank) {
  std::string shape = "(";
  const size_t rank = random.Below(max_rank + 1);
  for (size_t i = 0; i < rank; ++i) shape += (i == 0 ? "" : ",") + SmallExtent(random);
  return shape + ")";
}

}  // namespace oort::fuzz
