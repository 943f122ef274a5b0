# ctest includes this file. lsched_add_entries lists the tests of a googletest program, and registers one entry for each
# folder of test sources. The entry libsched.engine runs the tests of tests/libsched/engine. In the folders of
# `folders_by_source`, each source has a separate entry: bindings.death runs the tests of tests/bindings/death_test.cc.
# The sources of these folders take long, start processes, measure the time of the process, or add algorithms to the
# registry of the process.
#
# The tests of an entry share a process, so a test must restore any state of the process that it changes. An entry that
# fails prints the name of each test that it starts, and the failed tests at the end. The output therefore also names a
# test that crashes or hangs.
#
# A test with "Soak" or "soak" in its name, or in its suite's name, is a separate entry, <folder>.<suite>.<test>, with
# only the label `soak`.
cmake_policy(VERSION 3.21...3.25) # ctest itself sets no policies

set(folders_by_source bindings bindings/cli collectives collectives/written models offload offload/cuda verify_oracle)

# In a new build directory, ctest starts these entries first, so that a run does not end with a long entry. In later
# runs, ctest starts with the entries that took longest before.
set(long_entries bindings.cli.bench collectives.sparse cuda.sparse_kernels cuda_processes.processes models.random_engine)

# If LSCHED_TEST_FULL is set, the tests run full matrices, which take hours. Entries with many tests are then split into
# shards that can run in parallel: <entry>.1of4.
set(tests_of_a_shard 50)

# lsched_add_entries(name folder …): `folder` has the sources of `program`, relative to tests. `name` replaces `folder` in
# the names of entries.
function(lsched_add_entries name folder program labels timeout soak_timeout environment)
  if(NOT EXISTS ${program})
    add_test(${name}.NOT_BUILT ${program}) # fails, unless a selection by label omits this entry
    set_tests_properties(${name}.NOT_BUILT PROPERTIES TIMEOUT ${timeout})
    return()
  endif()
  execute_process(COMMAND ${program} --gtest_list_tests --gtest_output=xml:/dev/stdout
    OUTPUT_VARIABLE listing RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "${program} --gtest_list_tests: ${failed}")
  endif()

  set(entries "")
  string(REGEX REPLACE " (type|value)_param=\"[^\"]*\"" "" listing "${listing}")
  string(REGEX MATCHALL "<test(suite|case) name=[^>]*>" lines "${listing}")
  foreach(line IN LISTS lines)
    if(line MATCHES "^<testsuite name=\"([^\"]+)\"")
      set(suite ${CMAKE_MATCH_1})
    elseif(line MATCHES "^<testcase name=\"([^\"]+)\" file=\"[^\"]*tests/(${folder}/[^\"]+)_test\\.cc\"")
      set(test ${CMAKE_MATCH_1})
      set(entry ${CMAKE_MATCH_2})
      if("${suite}.${test}" MATCHES "[Ss]oak")
        add_test(${name}.${suite}.${test} ${program} --gtest_filter=${suite}.${test})
        set_tests_properties(${name}.${suite}.${test} PROPERTIES
          LABELS soak TIMEOUT ${soak_timeout} ENVIRONMENT "${environment}")
        continue()
      endif()
      get_filename_component(folder_of_test ${entry} DIRECTORY)
      if(NOT folder_of_test IN_LIST folders_by_source)
        set(entry ${folder_of_test})
      endif()
      if(NOT DEFINED entry_of_${suite})
        set(entry_of_${suite} ${entry})
        list(APPEND entries ${entry})
        list(APPEND suites_of_${entry} "${suite}.*")
      elseif(NOT entry_of_${suite} STREQUAL entry)
        message(FATAL_ERROR "${suite}.${test} is in tests/${entry}, but other tests of the suite are in "
          "tests/${entry_of_${suite}}: choose another name for the suite")
      endif()
      list(APPEND tests_of_${entry} ${test})
    else()
      message(FATAL_ERROR "${program} --gtest_list_tests names no source below tests/${folder} in ${line}")
    endif()
  endforeach()

  if(NOT entries)
    message(FATAL_ERROR "${program} --gtest_list_tests names no tests")
  endif()
  list(REMOVE_DUPLICATES entries)
  foreach(entry IN LISTS entries)
    list(JOIN suites_of_${entry} ":" filter)
    set(last 0)
    if(DEFINED ENV{LSCHED_TEST_FULL})
      set(timeout ${soak_timeout})
      list(LENGTH tests_of_${entry} number)
      math(EXPR last "(${number} - 1) / ${tests_of_a_shard}")
    endif()
    math(EXPR shards "${last} + 1")
    string(REGEX REPLACE "^${folder}" "${name}" name_of_entry "${entry}")
    string(REPLACE "/" "." name_of_entry "${name_of_entry}")
    foreach(shard RANGE ${last})
      set(name_of_shard ${name_of_entry})
      set(shard_environment "")
      if(last)
        math(EXPR index "${shard} + 1")
        string(APPEND name_of_shard .${index}of${shards})
        set(shard_environment GTEST_TOTAL_SHARDS=${shards} GTEST_SHARD_INDEX=${shard})
      endif()
      add_test(${name_of_shard} ${program} "--gtest_filter=${filter}-*Soak*:*soak*")
      set_tests_properties(${name_of_shard} PROPERTIES
        LABELS "${labels}" TIMEOUT ${timeout} ENVIRONMENT "${environment};${shard_environment}")
      if(name_of_entry IN_LIST long_entries)
        set_tests_properties(${name_of_shard} PROPERTIES COST 1)
      endif()
    endforeach()
  endforeach()
endfunction()
