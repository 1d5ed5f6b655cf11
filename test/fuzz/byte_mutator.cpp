// SPDX-License-Identifier: MIT
#include "byte_mutator.h"

#include <algorithm>
#include <fstream>

namespace oort::fuzz {
namespace {

/// A little-endian number at the ends of its range, of 1, 2, 4 or 8 bytes.
std::string ExtremeBytes(Random& random) {
  static constexpr uint64_t kValues[] = {0,
                                         1,
                                         0x7f,
                                         0x80,
                                         0xff,
                                         0x7fff,
                                         0xffff,
                                         0x7fffffff,
                                         0x80000000,
                                         0xffffffff,
                                         0x7fffffffffffffff,
                                         0xffffffffffffffff,
                                         16,
                                         64};
  uint64_t value = random.Pick(kValues);
  std::string bytes(size_t{1} << random.Below(4), '\0');
  for (char& byte : bytes) {
    byte = static_cast<char>(value & 0xff);
    value >>= 8;
  }
  return bytes;
}

}  // namespace

std::string ByteMutator::Mutate(std::string input, Random& random) const {
  const size_t count = 1 + random.Below(4);
  for (size_t i = 0; i < count; ++i) MutateOnce(input, random);
  return input;
}

void ByteMutator::MutateOnce(std::string& input, Random& random) const {
  const size_t at = random.Below(input.size() + 1);
  const size_t count = std::min(input.size() - at, 1 + random.Below(random.OneIn(4) ? 64 : 4));
  switch (random.Below(words_.empty() ? 6 : 9)) {
    case 0:  // one bit
      if (at < input.size()) input[at] = static_cast<char>(input[at] ^ 1 << random.Below(8));
      return;
    case 1:
      if (at < input.size()) input[at] = static_cast<char>(random.Below(256));
      return;
    case 2: input.erase(at, count); return;
    case 3: input.insert(random.Below(input.size() + 1), input.substr(at, count)); return;
    case 4: {
      const std::string bytes = ExtremeBytes(random);
      input.replace(at, std::min(bytes.size(), input.size() - at), bytes);
      return;
    }
    case 5: input.insert(at, 1, static_cast<char>(random.Below(256))); return;
    case 6: input.replace(at, count, random.Pick(words_)); return;
    default: input.insert(at, random.Pick(words_)); return;
  }
}

std::vector<std::string> ReadDictionary(const std::string& path) {
  std::vector<std::string> words;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const size_t begin = line.find('"'), end = line.rfind('"');
    if (begin == line.npos || end <= begin + 1) continue;
    std::string word;
    for (size_t i = begin + 1; i < end; ++i) {
      if (line.compare(i, 2, "\\x") == 0 && i + 3 < end) {
        word += static_cast<char>(std::stoi(line.substr(i + 2, 2), nullptr, 16));
        i += 3;
      } else {
        if (line[i] == '\\') ++i;
        word += line[i];
      }
    }
    words.push_back(word);
  }
  return words;
}

}  // namespace oort::fuzz
