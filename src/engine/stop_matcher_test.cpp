#include "engine/stop_matcher.h"

#include <gtest/gtest.h>

#include <vector>

namespace pagoda {
namespace {

struct Fed {
  std::string text, found;
};

Fed feed(const std::vector<std::string>& pieces, const std::vector<std::string>& stops) {
  StopMatcher matcher;
  Fed fed;
  for (const std::string& piece : pieces) {
    fed.found = matcher.append(piece, stops, fed.text);
    if (!fed.found.empty()) return fed;
  }
  matcher.flush(fed.text);
  return fed;
}

TEST(StopMatcher, cuts_at_a_stop_that_spans_pieces) {
  const Fed fed = feed({"one\n", "\nHum", "an: two"}, {"\n\nHuman:"});
  EXPECT_EQ(fed.text, "one");
  EXPECT_EQ(fed.found, "\n\nHuman:");
}

TEST(StopMatcher, holds_back_only_what_may_become_a_stop) {
  StopMatcher matcher;
  const std::vector<std::string> stops = {"abab"};
  std::string out;
  EXPECT_EQ(matcher.append("xaba", stops, out), "");
  EXPECT_EQ(out, "x");
  EXPECT_EQ(matcher.append("c", stops, out), "");
  EXPECT_EQ(out, "xabac");
}

TEST(StopMatcher, a_start_that_overlaps_itself_is_found) {
  const Fed fed = feed({"a", "a", "b", "a", "a", "b", "b"}, {"aabb"});
  EXPECT_EQ(fed.text, "aab");
  EXPECT_EQ(fed.found, "aabb");
}

TEST(StopMatcher, the_first_match_in_the_text_wins) {
  const Fed fed = feed({"say END and STOP"}, {"STOP", "END"});
  EXPECT_EQ(fed.text, "say ");
  EXPECT_EQ(fed.found, "END");
}

TEST(StopMatcher, what_was_held_back_goes_out_at_the_end) {
  EXPECT_EQ(feed({"ends in STO"}, {"STOP"}).text, "ends in STO");
}

TEST(StopMatcher, never_cuts_a_character) {
  const std::string snowman = "\xe2\x98\x83", comet = "\xe2\x98\x84";
  StopMatcher matcher;
  std::string out;
  const std::vector<std::string> stops = {comet};
  EXPECT_EQ(matcher.append("a" + snowman, stops, out), "");
  EXPECT_EQ(out, "a" + snowman);
}

}  // namespace
}  // namespace pagoda
