#include "cli/errors.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>
#include <vector>

namespace pagoda::cli {
namespace {

// Ends the process by one of many threads, as threads that read a file that was cut short do.
[[noreturn]] void end_by_many_threads(int to) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; i++)
    threads.emplace_back([to] {
      for (int twice = 0; twice < 2; twice++) {
        claim_last_error();
        (void)!write(to, "x", 1);
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      }
      _exit(kModel);
    });
  for (std::thread& thread : threads) thread.join();
  _exit(kBug);
}

TEST(Errors, a_process_ends_with_that_of_one_thread) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) end_by_many_threads(ends[1]);
  close(ends[1]);
  char written[64];
  ssize_t total = 0;
  for (ssize_t n; (n = read(ends[0], written, sizeof written)) > 0;) total += n;
  close(ends[0]);
  EXPECT_EQ(total, 2);  // the same thread may say more than one thing
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), kModel);
}

}  // namespace
}  // namespace pagoda::cli
