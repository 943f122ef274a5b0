# ctest includes this file. lsched_add_suites lists the tests of a googletest program and registers one entry for each
# suite, <folder>.<suite>. Suites with many tests are split into shards that can run in parallel: <folder>.<suite>.1of4.
# A test with "Soak" or "soak" in its name, or in its suite's name, is a separate entry, <folder>.<suite>.<test>, with
# only the label `soak`.
set(tests_of_a_shard 50)

function(lsched_add_suites folder program labels timeout soak_timeout environment)
  if(NOT EXISTS ${program})
    add_test(${folder}.NOT_BUILT ${program}) # fails, unless tests are selected by label
    set_tests_properties(${folder}.NOT_BUILT PROPERTIES TIMEOUT ${timeout})
    return()
  endif()
  execute_process(COMMAND ${program} --gtest_list_tests OUTPUT_VARIABLE listing RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "${program} --gtest_list_tests: ${failed}")
  endif()
  if(DEFINED ENV{LSCHED_TEST_FULL}) # full matrices take hours
    set(timeout ${soak_timeout})
  endif()

  set(suites "")
  string(REGEX REPLACE " *#[^\n]*" "" listing "${listing}") # types and values of parameters
  string(REPLACE "\n" ";" lines "${listing}")
  foreach(line IN LISTS lines)
    if(line MATCHES "^([^ ]+)\\.$")
      set(suite ${CMAKE_MATCH_1})
    elseif(line MATCHES "^  (.+)$")
      set(test ${CMAKE_MATCH_1})
      if("${suite}.${test}" MATCHES "[Ss]oak")
        add_test(${folder}.${suite}.${test} ${program} --gtest_filter=${suite}.${test})
        set_tests_properties(${folder}.${suite}.${test} PROPERTIES
          LABELS soak TIMEOUT ${soak_timeout} ENVIRONMENT "${environment}")
      else()
        list(APPEND suites ${suite})
        list(APPEND tests_of_${suite} ${test})
      endif()
    endif()
  endforeach()

  if(NOT suites)
    message(FATAL_ERROR "${program} --gtest_list_tests names no tests")
  endif()
  list(REMOVE_DUPLICATES suites)
  foreach(suite IN LISTS suites)
    list(LENGTH tests_of_${suite} number)
    math(EXPR last "(${number} - 1) / ${tests_of_a_shard}")
    math(EXPR shards "${last} + 1")
    foreach(shard RANGE ${last})
      set(name ${folder}.${suite})
      set(shard_environment "")
      if(last)
        math(EXPR index "${shard} + 1")
        string(APPEND name .${index}of${shards})
        set(shard_environment GTEST_TOTAL_SHARDS=${shards} GTEST_SHARD_INDEX=${shard})
      endif()
      add_test(${name} ${program} --gtest_brief=1 "--gtest_filter=${suite}.*-*Soak*:*soak*")
      set_tests_properties(${name} PROPERTIES
        LABELS "${labels}" TIMEOUT ${timeout} ENVIRONMENT "${environment};${shard_environment}")
    endforeach()
  endforeach()
endfunction()
