// The norm of a vector that is distributed over the ranks.  lsched run -n 3 build/examples/norm
#include <lsched.hpp>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <vector>

using namespace std::chrono_literals;

int main() try {
  lsched::world world;  // joins the ranks that were started together
  const std::vector<double> part(1000, world.rank() + 1.0);
  std::vector<double> mine(1), all(1);
  lsched::schedule sum = world.allreduce<double>(mine, all);  // made once, by all ranks
  mine[0] = std::inner_product(part.begin(), part.end(), part.begin(), 0.0);
  const lsched::ticket round = sum.start();  // returns at once: compute here
  round.wait(10s);                           // throws lsched::error after 10 seconds
  std::printf("rank %d of %d: the norm is %.3f\n", world.rank(), world.size(), std::sqrt(all[0]));
  sum.close();
  world.close();
} catch (const lsched::error& why) {
  std::fprintf(stderr, "%s\n", why.what());  // the status, and the rank that is missing
  return 1;
}
