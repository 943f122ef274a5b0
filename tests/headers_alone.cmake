# Adds the target lsched_headers_alone (`make headers`), which checks that every header of this configuration compiles
# alone and has an include guard.
#
# For each header, the build generates a source that includes only this header, twice. No precompiled header is used.
# The sources of public headers are compiled with one more warning, because programs choose their own warnings and may
# treat them as errors.
set(public_name "^bindings/(c/lsched(_[a-z]+)?[.]h|cpp/[a-z_]+[.]hpp)$")
set(header_folders ops libsched collectives offload bindings)
set(header_libraries lsched_hwy)
if(LSCHED_CLI)
  list(APPEND header_libraries CLI11::CLI11 nlohmann_json::nlohmann_json)
endif()
if(LSCHED_HAVE_MPI)
  list(APPEND header_libraries lsched_mpi_api)
endif()
if(LSCHED_HAVE_TBB)
  list(APPEND header_libraries TBB::tbb)
endif()
if(LSCHED_TESTS)
  find_package(GTest REQUIRED)
  list(APPEND header_folders tests/support tests/verify_oracle tests/conformance)
  list(APPEND header_libraries GTest::gtest)
endif()
if(LSCHED_BENCH)
  list(APPEND header_folders microbench)
endif()
set(alone_sources "")
foreach(folder IN LISTS header_folders)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}
    ${PROJECT_SOURCE_DIR}/${folder}/*.h ${PROJECT_SOURCE_DIR}/${folder}/*.hpp)
  # A file *-inl.h is not a header, but a body that Highway includes repeatedly.
  list(FILTER headers EXCLUDE REGEX "-inl\\.h$")
  if(NOT LSCHED_CLI)
    list(FILTER headers EXCLUDE REGEX "^bindings/cli/")
  endif()
  if(NOT LSCHED_HAVE_MPI)
    list(FILTER headers EXCLUDE REGEX "(^|[/_])mpi[/_.]")
  endif()
  if(NOT LSCHED_HAVE_TBB)
    list(FILTER headers EXCLUDE REGEX "/tbb_")
  endif()
  if(NOT LSCHED_HAVE_CUDA)
    list(FILTER headers EXCLUDE REGEX "cuda/")
  endif()
  list(FILTER headers EXCLUDE REGEX "^bindings/python/") # these headers need nanobind
  foreach(header IN LISTS headers)
    string(MAKE_C_IDENTIFIER ${header} name)
    set(source ${PROJECT_BINARY_DIR}/headers_alone/${name}.cc)
    file(CONFIGURE OUTPUT ${source} @ONLY CONTENT "#include \"@header@\"\n#include \"@header@\" // guarded\n")
    if(header MATCHES "${public_name}")
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "$<$<CXX_COMPILER_ID:GNU>:-Wuseless-cast>")
    endif()
    if(header MATCHES "/cuda/kernels/") # compiles kernels with the emulation of tests, because this compiler has no
                                        # CUDA
      set_source_files_properties(${source} PROPERTIES COMPILE_DEFINITIONS LSCHED_EMULATE=1)
    endif()
    list(APPEND alone_sources ${source})
  endforeach()
endforeach()
add_library(lsched_headers_alone OBJECT EXCLUDE_FROM_ALL ${alone_sources})
target_compile_options(lsched_headers_alone PRIVATE -O0 -g0)
target_include_directories(lsched_headers_alone PRIVATE ${PROJECT_SOURCE_DIR}/bindings/c) # lsched.hpp includes <lsched.h>
target_include_directories(lsched_headers_alone SYSTEM PRIVATE ${LSCHED_CUDA_INCLUDES})
target_link_libraries(lsched_headers_alone PRIVATE lsched_flags ${header_libraries})
