# What every folder's CMakeLists.txt uses: compiler settings, and one function that turns a folder into a
# library (x.cpp) and a test program (x_test.cpp).
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
endif()

# CPU seconds of each compilation, for the budget that tests/house checks.
set_property(GLOBAL PROPERTY RULE_LAUNCH_COMPILE
  "${CMAKE_SOURCE_DIR}/cmake/measure-compile ${CMAKE_BINARY_DIR}/compile_times.txt <OBJECT>")

# pagoda_warnings: what all code is compiled with. pagoda_options: and the sanitizers, for all but kernels, which are
# compiled five times, call nothing, and are held bit for bit to a reference.
add_library(pagoda_warnings INTERFACE)
target_compile_options(pagoda_warnings INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Werror -ffp-contract=off>
  # clang warns about libstdc++'s own use of std::get_temporary_buffer in stable_sort
  $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wno-deprecated-declarations>)
target_include_directories(pagoda_warnings INTERFACE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include)
add_library(pagoda_options INTERFACE)
target_link_libraries(pagoda_options INTERFACE pagoda_warnings)
if(PAGODA_SANITIZE)
  target_compile_options(pagoda_options INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${PAGODA_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer>)
  target_link_options(pagoda_options INTERFACE -fsanitize=${PAGODA_SANITIZE})
endif()
if(PAGODA_FUZZ)  # everything that a fuzz target links reports its branches; a bug aborts
  target_compile_options(pagoda_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=fuzzer-no-link>)
  target_compile_definitions(pagoda_options INTERFACE PAGODA_FUZZING)
endif()

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(LIBEDIT REQUIRED IMPORTED_TARGET libedit)
if(PAGODA_TESTS)
  find_package(GTest REQUIRED)
  include(GoogleTest)
endif()

# pagoda_library(NAME [DEPS libraries...] [ALSO subfolders...]): every *.cpp of this folder but the tests is the library pagoda_NAME;
# every *_test.cpp (and *_fixture.cpp) goes into the program NAME_test, run by ctest as one entry. *_kernels.cpp are compiled by the folder's own CMakeLists.txt.
function(pagoda_library name)
  cmake_parse_arguments(ARG "" "" "DEPS;ALSO" ${ARGN})
  list(TRANSFORM ARG_ALSO APPEND "/*.cpp")
  file(GLOB sources CONFIGURE_DEPENDS *.cpp ${ARG_ALSO})
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "(_test|_fixture|_kernels|/main)\\.cpp$")
  list(FILTER tests INCLUDE REGEX "_(test|fixture)\\.cpp$")
  if(sources)
    add_library(pagoda_${name} STATIC ${sources})
    target_link_libraries(pagoda_${name} PUBLIC ${ARG_DEPS} PRIVATE pagoda_options)
    target_include_directories(pagoda_${name} PUBLIC ${CMAKE_SOURCE_DIR}/src)
  else()
    add_library(pagoda_${name} INTERFACE)
    target_link_libraries(pagoda_${name} INTERFACE ${ARG_DEPS})
    target_include_directories(pagoda_${name} INTERFACE ${CMAKE_SOURCE_DIR}/src)
  endif()
  if(PAGODA_TESTS AND tests)
    add_executable(${name}_test ${tests})
    target_link_libraries(${name}_test PRIVATE pagoda_${name} pagoda_options GTest::gmock GTest::gtest_main)
    target_compile_definitions(${name}_test PRIVATE PAGODA_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
    add_test(NAME ${name}_test COMMAND ${name}_test)
  endif()
endfunction()
