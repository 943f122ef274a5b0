# Installs BUILD, moves the result to PREFIX (an installed tree must not know where it was put), and builds
# and runs the program in CONSUMER against it through find_package and through pkg-config; likewise MPI_PROGRAM, with two
# ranks of MPIEXEC, if there is one.
cmake_minimum_required(VERSION 3.25)
set(scratch ${PREFIX}.consumers)
set(staging ${PREFIX}.staging)
file(REMOVE_RECURSE ${PREFIX} ${scratch} ${staging})
file(MAKE_DIRECTORY ${scratch})

function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE failed OUTPUT_VARIABLE text ERROR_VARIABLE text)
  if(failed)
    list(JOIN ARGV " " command)
    message(FATAL_ERROR "${command}\n${text}")
  endif()
  set(output "${text}" PARENT_SCOPE)
endfunction()

function(expect_version how)
  if(NOT output STREQUAL "${VERSION}\n")
    message(FATAL_ERROR "the ${how} consumer printed `${output}`, not ${VERSION}")
  endif()
endfunction()

run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${staging})
file(RENAME ${staging} ${PREFIX})
string(REGEX MATCH "^(0\\.)?[0-9]+" soversion ${VERSION}) # a minor version may break programs before version 1
set(files ${LIBDIR}/libsched.so.${soversion} include/lsched.h include/lsched_cuda.h include/lsched.hpp
  include/lsched_delta.hpp include/lsched_exchange.hpp include/lsched_messages.hpp include/lsched_partition.hpp
  include/lsched_sparse.hpp ${LIBDIR}/libsched.so bin/lsched share/man/man1/lsched-run.1
  share/bash-completion/completions/lsched ${DOCDIR}/LICENSE)
if(MPI_PROGRAM)
  separate_arguments(MPIEXEC UNIX_COMMAND "${MPIEXEC}")
  list(APPEND files ${LIBDIR}/libsched_mpi.so.${soversion} ${LIBDIR}/libsched_mpi.so include/lsched_mpi.h)
endif()
foreach(file IN LISTS files)
  if(NOT EXISTS ${PREFIX}/${file})
    message(FATAL_ERROR "${file} was not installed")
  endif()
endforeach()
run(${PREFIX}/bin/lsched --help)

run(${CMAKE_COMMAND} -S ${CONSUMER} -B ${scratch}/cmake -G ${GENERATOR} -DCMAKE_C_COMPILER=${CC}
  -DCMAKE_PREFIX_PATH=${PREFIX} -DWANTED=${VERSION} -DMPI_PROGRAM=${MPI_PROGRAM})
run(${CMAKE_COMMAND} --build ${scratch}/cmake)
run(${scratch}/cmake/consumer)
expect_version(CMake)
if(MPI_PROGRAM)
  run(${MPIEXEC} -n 2 ${scratch}/cmake/mpi_consumer)
endif()

set(ENV{PKG_CONFIG_PATH} ${PREFIX}/${LIBDIR}/pkgconfig)
run(${PKG_CONFIG} --modversion libsched)
expect_version(pkg-config)
run(${PKG_CONFIG} --cflags --libs libsched)
separate_arguments(flags UNIX_COMMAND "${output}")
run(${CC} -std=c11 ${CONSUMER}/consumer.c -o ${scratch}/consumer ${flags})
set(ENV{LD_LIBRARY_PATH} ${PREFIX}/${LIBDIR})
run(${scratch}/consumer)
expect_version(pkg-config)
if(MPI_PROGRAM)
  run(${PKG_CONFIG} --cflags --libs libsched_mpi)
  separate_arguments(flags UNIX_COMMAND "${output}")
  run(${CC} -std=c11 ${MPI_PROGRAM} -o ${scratch}/mpi_consumer ${flags})
  run(${MPIEXEC} -n 2 ${scratch}/mpi_consumer)
endif()
