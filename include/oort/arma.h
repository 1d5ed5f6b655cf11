// SPDX-License-Identifier: MIT
// A bridge to Armadillo, for programs that have their data in arma::fmat or arma::fcube. The
// library itself does not need Armadillo; a program that includes this header links it.
//
// Armadillo is column-major and a Tensor row-major, so both directions copy and transpose:
//   fmat  (rows, cols)          <->  Tensor (rows, cols)
//   fcube (rows, cols, slices)  <->  Tensor (slices, rows, cols): a slice is a channel
//   fcube (rows, cols, slices)  <->  Image: a slice is a channel, brightness stays 0 … 255
#pragma once

#include <armadillo>

#include "oort/image.h"
#include "oort/tensor.h"

namespace oort {

inline Tensor FromArma(const arma::fmat& matrix) {
  Tensor tensor(DType::kF32,
                {static_cast<int64_t>(matrix.n_rows), static_cast<int64_t>(matrix.n_cols)});
  if (matrix.is_empty()) return tensor;
  // A row-major matrix is the transpose of a column-major one in the same memory.
  arma::fmat target(tensor.data<float>(), matrix.n_cols, matrix.n_rows, false, true);
  target = matrix.t();
  return tensor;
}

inline Tensor FromArma(const arma::fvec& vector) {
  return Tensor::From(std::span<const float>(vector.memptr(), vector.n_elem),
                      {static_cast<int64_t>(vector.n_elem)});
}

inline Tensor FromArma(const arma::frowvec& vector) {
  return Tensor::From(std::span<const float>(vector.memptr(), vector.n_elem),
                      {static_cast<int64_t>(vector.n_elem)});
}

inline Tensor FromArma(const arma::fcube& cube) {
  Tensor tensor(DType::kF32,
                {static_cast<int64_t>(cube.n_slices), static_cast<int64_t>(cube.n_rows),
                 static_cast<int64_t>(cube.n_cols)});
  for (arma::uword i = 0; i < cube.n_slices && cube.n_elem_slice > 0; ++i) {
    float* slice = tensor.data<float>() + i * cube.n_elem_slice;
    arma::fmat target(slice, cube.n_cols, cube.n_rows, false, true);
    target = cube.slice(i).t();
  }
  return tensor;
}

/// Throws kInvalidArgument unless the tensor is f32 of rank 2.
inline arma::fmat ToFmat(const Tensor& tensor) {
  if (tensor.rank() != 2) {
    throw Error(ErrorCode::kInvalidArgument, "ToFmat: expected rank 2, got " + tensor.ToString());
  }
  const auto rows = static_cast<arma::uword>(tensor.dim(0));
  const auto columns = static_cast<arma::uword>(tensor.dim(1));
  if (tensor.elements() == 0) return arma::fmat(rows, columns);
  return arma::fmat(tensor.data<float>(), columns, rows).t();
}

/// Throws kInvalidArgument unless the tensor is f32 of rank 3.
inline arma::fcube ToFcube(const Tensor& tensor) {
  if (tensor.rank() != 3) {
    throw Error(ErrorCode::kInvalidArgument, "ToFcube: expected rank 3, got " + tensor.ToString());
  }
  arma::fcube cube(static_cast<arma::uword>(tensor.dim(1)), static_cast<arma::uword>(tensor.dim(2)),
                   static_cast<arma::uword>(tensor.dim(0)));
  for (int64_t i = 0; i < tensor.dim(0); ++i) {
    cube.slice(static_cast<arma::uword>(i)) =
        ToFmat(tensor.Rows(i, i + 1).Reshaped({tensor.dim(1), tensor.dim(2)}));
  }
  return cube;
}

inline arma::fcube ToFcube(const Image& image) {
  arma::fcube cube(static_cast<arma::uword>(image.height), static_cast<arma::uword>(image.width),
                   static_cast<arma::uword>(image.channels));
  for (int y = 0; y < image.height; ++y) {
    for (int x = 0; x < image.width; ++x) {
      for (int c = 0; c < image.channels; ++c) {
        cube(static_cast<arma::uword>(y), static_cast<arma::uword>(x),
             static_cast<arma::uword>(c)) = image.at(y, x, c);
      }
    }
  }
  return cube;
}

/// Throws kInvalidArgument unless the cube has 1 (gray) or 3 (RGB) slices.
inline Image ToImage(const arma::fcube& cube) {
  if (cube.n_slices != 1 && cube.n_slices != 3) {
    throw Error(ErrorCode::kInvalidArgument,
                "ToImage: a picture has 1 or 3 channels, not " + std::to_string(cube.n_slices));
  }
  Image image{static_cast<int>(cube.n_cols), static_cast<int>(cube.n_rows),
              static_cast<int>(cube.n_slices), std::vector<float>(cube.n_elem)};
  for (int y = 0; y < image.height; ++y) {
    for (int x = 0; x < image.width; ++x) {
      for (int c = 0; c < image.channels; ++c) {
        image.at(y, x, c) = cube(static_cast<arma::uword>(y), static_cast<arma::uword>(x),
                                 static_cast<arma::uword>(c));
      }
    }
  }
  return image;
}

/// Any tensor of f32 as one column, in row-major order.
inline arma::fvec ToFvec(const Tensor& tensor) {
  return arma::fvec(tensor.data<float>(), static_cast<arma::uword>(tensor.elements()));
}

}  // namespace oort
