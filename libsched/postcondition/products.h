// Which products of elements are in a sum, as a fingerprint that adds up.
//
// The sums of an adaptive sum (kernel::dot_norms) are made part by part, by several ranks, and added. Whether all
// elements of two vectors are in them, each once, is told by how many they are, and by the sum over the elements e of
// r^e times a number that stands for the two vectors, modulo 2^61-1, with two random r. As many elements of vectors of
// length n that are not the right ones are overlooked with a probability of at most (n / 2^61)^2.
#pragma once

#include <cstdint>

#include "libsched/postcondition/fingerprint.h"

namespace lsched {

using products = fingerprint;

/// Of elements [begin, end) of two vectors, given by the hashes of their expressions (postcondition.h).
products products_of(std::uint64_t lower, std::uint64_t higher, std::uint64_t begin, std::uint64_t end);

/// The expression of the adaptive sum of the two by such sums.
std::uint64_t adaptive_tree(std::uint64_t lower, std::uint64_t higher, const products& by);

}  // namespace lsched
