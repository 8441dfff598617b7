// Arrays between NumPy and the kernels: shapes are checked, memory is handed over.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cmath>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "crowdsift/array.hpp"

namespace nb = nanobind;

template <class T>
using In = nb::ndarray<const T, nb::numpy, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Out = nb::ndarray<nb::numpy, T, nb::ndim<1>>;

template <class T>
using Matrix = nb::ndarray<const T, nb::numpy, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T>
using Blocks = nb::ndarray<const T, nb::numpy, nb::ndim<3>, nb::c_contig, nb::device::cpu>;

using Vec = std::vector<double>;

template <class T>
void require(const In<T>& array, std::size_t length, const char* name) {
    if (array.shape(0) != length)
        throw std::invalid_argument(std::string(name) + " has " + std::to_string(array.shape(0)) +
                                    " entries, expected " + std::to_string(length));
}

template <class T>
void require(const Matrix<T>& array, std::size_t rows, std::size_t columns, const char* name) {
    if (array.shape(0) != rows || array.shape(1) != columns)
        throw std::invalid_argument(std::string(name) + " is " + std::to_string(array.shape(0)) +
                                    " x " + std::to_string(array.shape(1)) + ", expected " +
                                    std::to_string(rows) + " x " + std::to_string(columns));
}

// Checks for loops whose end depends on the numbers.
inline void require_finite(const double* values, std::size_t count, const char* name) {
    for (std::size_t i = 0; i < count; ++i)
        if (!std::isfinite(values[i]))
            throw std::invalid_argument(std::string(name) + " has an entry that is not finite");
}

// Returns an array that owns the vector's memory.
template <class T, std::size_t D>
nb::ndarray<nb::numpy, T, nb::ndim<D>> hand_over(std::vector<T>&& values,
                                                 const std::size_t (&shape)[D]) {
    auto* kept = new std::vector<T>(std::move(values));
    nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return nb::ndarray<nb::numpy, T, nb::ndim<D>>(kept->data(), D, shape, owner);
}

template <class T>
Out<T> hand_over(std::vector<T>&& values) {
    const std::size_t shape[1] = {values.size()};
    return hand_over<T, 1>(std::move(values), shape);
}

template <class T>
Out<T> hand_copy(const crowdsift::Array<T>& values) {
    return hand_over(std::vector<T>(values.begin(), values.end()));
}
