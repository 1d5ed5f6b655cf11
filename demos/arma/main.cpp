// SPDX-License-Identifier: MIT
// A picture prepared with Armadillo, and the answer of a network read as one of its vectors.
//   arma models/digits/digits.pnnx.param models/digits/samples/*.png
#include <cstdio>
#include <filesystem>
#include <iostream>

#include "oort/arma.h"
#include "oort/image.h"
#include "oort/oort.h"

namespace {

arma::fmat ReadGray(const std::filesystem::path& path) {
  return oort::ToFcube(oort::ToGray(oort::ReadImage(path))).slice(0);
}

/// Bright ink on dark ground from 0 to 1, `side` pixels wide and high, as the network learnt it.
arma::fmat Prepare(arma::fmat picture, arma::uword side) {
  picture /= 255;
  const float ground =
      (arma::mean(picture.row(0)) + arma::mean(picture.row(picture.n_rows - 1))) / 2;
  if (ground > 0.5f) picture = 1 - picture;  // dark ink on paper
  if (picture.n_rows == side && picture.n_cols == side) return picture;
  const arma::fvec x = arma::regspace<arma::fvec>(0, static_cast<float>(picture.n_cols) - 1);
  const arma::fvec y = arma::regspace<arma::fvec>(0, static_cast<float>(picture.n_rows) - 1);
  arma::fmat resized;
  arma::interp2(x, y, picture, arma::linspace<arma::fvec>(x.front(), x.back(), side),
                arma::linspace<arma::fvec>(y.front(), y.back(), side), resized, "linear", 0.0f);
  return resized;
}

arma::fvec Softmax(const arma::fvec& scores) {
  const arma::fvec powers = arma::exp(scores - scores.max());
  return powers / arma::accu(powers);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: arma MODEL.pnnx.param PICTURE...\n"
                 "  arma models/digits/digits.pnnx.param models/digits/samples/*.png\n";
    return 2;
  }
  try {
    const std::filesystem::path param = argv[1];
    const auto graph =
        oort::RuntimeGraph::Load(param, std::filesystem::path(param).replace_extension(".bin"));
    oort::Session session(graph);
    for (int i = 2; i < argc; ++i) {
      const arma::fmat picture = Prepare(ReadGray(argv[i]), 28);
      const oort::Tensor input = oort::FromArma(picture).Reshaped({1, 1, 28, 28});
      const arma::fvec answer = Softmax(oort::ToFvec(session.Forward({input}).at(0)));
      const arma::uword digit = answer.index_max();
      std::printf("%s: %d (%.1f %%)\n", argv[i], static_cast<int>(digit), 100 * answer(digit));
    }
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "arma: " << error.what() << '\n';
    return 1;
  }
}
