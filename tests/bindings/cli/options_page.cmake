# docs/reference/options.md is what `lsched help --options` prints; which fails where a name has two meanings.
execute_process(COMMAND ${COMMAND} help --options OUTPUT_VARIABLE printed ERROR_VARIABLE flaws RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "names of options:\n${flaws}")
endif()
file(READ ${PAGE} page)
if(NOT page STREQUAL printed)
  message(FATAL_ERROR "${PAGE} is not what the command prints: lsched help --options > docs/reference/options.md")
endif()
