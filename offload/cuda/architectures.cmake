# Kernels are compiled for the architectures in LSCHED_CUDA_ARCHITECTURES. For the first and lowest architecture, the
# PTX is kept too. Drivers translate the PTX for newer devices. As a script, this file only checks the architectures.
cmake_minimum_required(VERSION 3.21...3.25)
execute_process(COMMAND ${LSCHED_NVCC} --list-gpu-arch OUTPUT_VARIABLE known COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "[0-9]+" known "${known}")
set(architectures 75 80 90 100 120)
foreach(architecture IN LISTS architectures)
  if(NOT architecture IN_LIST known)
    list(REMOVE_ITEM architectures ${architecture})
  endif()
endforeach()
set(LSCHED_CUDA_ARCHITECTURES "${architectures}" CACHE STRING "Architectures of devices, the lowest first, as 90;100")

list(JOIN known " " words)
if(NOT LSCHED_CUDA_ARCHITECTURES)
  message(FATAL_ERROR "LSCHED_CUDA_ARCHITECTURES is empty: name some of ${words}, or set LSCHED_CUDA=OFF")
endif()
foreach(architecture IN LISTS LSCHED_CUDA_ARCHITECTURES)
  string(REGEX REPLACE "[af]$" "" number "${architecture}") # for example, 90a is for architecture 90 only
  if(NOT number IN_LIST known)
    message(FATAL_ERROR "LSCHED_CUDA_ARCHITECTURES: \"${architecture}\" is not an architecture that ${LSCHED_NVCC} compiles for: ${words}")
  endif()
endforeach()
