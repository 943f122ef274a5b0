# cmake -DLSCHED=… -DPROGRAM=… -P check.cmake: with the rate outside it is valid JSON, of a fit that is near; and with
# too little of the gradient, too late, it says that it is not.
cmake_minimum_required(VERSION 3.21...3.25)
execute_process(COMMAND ${LSCHED} run -n 3 --timeout 400 ${PROGRAM} --outside --json RESULT_VARIABLE failed
  OUTPUT_VARIABLE text)
if(failed)
  message(FATAL_ERROR "it answers ${failed}\n${text}")
endif()
string(JSON resumes GET "${text}" resumes)
string(JSON near GET "${text}" near)
string(JSON rate GET "${text}" rate)
string(JSON dense_bytes GET "${text}" dense_bytes)
string(JSON sparse_bytes GET "${text}" sparse_bytes)
string(JSON length LENGTH "${text}" losses)
string(JSON last GET "${text}" losses 6 step)
if(NOT resumes OR NOT near OR NOT rate STREQUAL "outside" OR NOT length EQUAL 7 OR NOT last EQUAL 600)
  message(FATAL_ERROR "it does not say that all is well, in 7 lines up to step 600\n${text}")
endif()
math(EXPR most "${dense_bytes} / 10")
if(sparse_bytes GREATER most)
  message(FATAL_ERROR "${sparse_bytes} bytes are sent, of dense ${dense_bytes}\n${text}")
endif()

execute_process(COMMAND ${LSCHED} run -n 3 --timeout 400 ${PROGRAM} --density 0.002 --steps 100 RESULT_VARIABLE failed
  OUTPUT_VARIABLE text ERROR_VARIABLE why)
if(NOT failed OR NOT why MATCHES "the sparse loss is far from the dense one" OR why MATCHES "not even")
  message(FATAL_ERROR "it answers ${failed}\n${text}${why}")
endif()
