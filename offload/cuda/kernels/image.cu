// All kernels form one module, which the driver loads.
#include "offload/cuda/kernels/convert.cu"
#include "offload/cuda/kernels/divide.cu"
#include "offload/cuda/kernels/elementwise.cu"
#include "offload/cuda/kernels/linear.cu"
#include "offload/cuda/kernels/sparse.cu"
