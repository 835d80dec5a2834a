#include "base/error.h"

#include <cstdio>
#include <cstdlib>

namespace pagoda {

void report_bug(const char* file, int line, const char* condition, const std::string& values) {
  std::fprintf(stderr,
               "bug: %s:%d: expected %s; %s\nThis is a fault of pagoda, not of its input. Please "
               "report it with this "
               "line, the output of `pagoda version` and the command.\n",
               file,
               line,
               condition,
               values.c_str());
  std::fflush(stderr);
#ifdef PAGODA_FUZZING
  std::abort();
#else
  std::_Exit(70);
#endif
}

}  // namespace pagoda
