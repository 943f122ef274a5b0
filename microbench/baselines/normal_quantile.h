// Quantiles of the normal distribution.
#pragma once

namespace lsched {

/// The x that a standard normal number falls short of with a given probability, above 0 and below 1; to nine digits.
/// (Acklam, An algorithm for computing the inverse normal cumulative distribution function, 2003.)
double normal_quantile(double probability);

}  // namespace lsched
