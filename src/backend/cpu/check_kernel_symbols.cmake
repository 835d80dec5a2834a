# Fails when an object of kernels defines a symbol outside its instruction set's namespace: the linker could then take that copy, compiled
# for a larger machine, for the whole program (the one-definition rule).
string(REPLACE "|" ";" OBJECTS "${OBJECTS}")
foreach(object ${OBJECTS})
  execute_process(COMMAND ${NM} -C --defined-only --extern-only ${object} OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
  string(REPLACE "\n" ";" symbols "${symbols}")
  foreach(symbol ${symbols})
    if(NOT symbol MATCHES "pagoda::cpu::${LEVEL}::")
      message(SEND_ERROR "${object} defines ${symbol}")
    endif()
  endforeach()
endforeach()
