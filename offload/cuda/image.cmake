# offload/CMakeLists.txt includes this file if nvcc was found. This file compiles the kernels to the device image,
# LSCHED_DEVICE_IMAGE. The statistics that the device assembler prints for each kernel go to LSCHED_DEVICE_REPORT.
include(${CMAKE_CURRENT_LIST_DIR}/architectures.cmake)

# Kernels use no feature that the lowest architecture lacks. So they are compiled to PTX once, for the lowest
# architecture. The PTX is assembled for each architecture.
list(GET LSCHED_CUDA_ARCHITECTURES 0 lowest)
list(TRANSFORM LSCHED_CUDA_ARCHITECTURES PREPEND sm_ OUTPUT_VARIABLE real)
list(JOIN real "," real)
set(targets -gencode "arch=compute_${lowest},code=[compute_${lowest},${real}]")

set(kernels ${CMAKE_CURRENT_SOURCE_DIR}/cuda/kernels)
set(LSCHED_DEVICE_IMAGE ${CMAKE_CURRENT_BINARY_DIR}/device_image.fatbin)
set(LSCHED_DEVICE_REPORT ${CMAKE_CURRENT_BINARY_DIR}/device_image.txt)
# As on hosts, a product is fused with a sum only if the source does so explicitly.
set(command ${LSCHED_NVCC} -fatbin -O3 -std=c++20 -fmad=false -I${PROJECT_SOURCE_DIR} ${targets}
  -Xfatbin -compress-all -Xptxas -v --threads 2 -o ${LSCHED_DEVICE_IMAGE} ${kernels}/image.cu)
if(LSCHED_WERROR)
  list(APPEND command -Werror all-warnings)
endif()
file(GLOB kernel_sources CONFIGURE_DEPENDS ${kernels}/*.cu ${kernels}/*.h)
add_custom_command(OUTPUT ${LSCHED_DEVICE_IMAGE} ${LSCHED_DEVICE_REPORT} VERBATIM
  DEPENDS ${kernel_sources} ${CMAKE_CURRENT_LIST_DIR}/compile.cmake
  COMMAND ${CMAKE_COMMAND} "-DCOMMAND=${command}" -DREPORT=${LSCHED_DEVICE_REPORT}
    -P ${CMAKE_CURRENT_LIST_DIR}/compile.cmake
  COMMENT "Compiling kernels for devices ${LSCHED_CUDA_ARCHITECTURES}")
set_source_files_properties(cuda/image.S PROPERTIES OBJECT_DEPENDS ${LSCHED_DEVICE_IMAGE}
  COMPILE_DEFINITIONS "LSCHED_DEVICE_IMAGE=\"${LSCHED_DEVICE_IMAGE}\"")
set_property(GLOBAL PROPERTY lsched_device_report ${LSCHED_DEVICE_REPORT})
