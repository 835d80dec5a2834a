// PlantedBug: mistakes put in on purpose, to prove that the simulation of engine/simulation would
// find them. They exist only in the copy of kv and engine that is built with PAGODA_PLANTED_BUGS
// for that test; everywhere else planted() is a constant false and leaves no trace.
#pragma once

#include <cstdint>

namespace pagoda {

enum class PlantedBug : uint8_t {
  none,
  // kv
  skip_decref_on_release,
  free_before_step_ends,
  index_without_parent,
  index_without_salt,
  index_partial_block,
  no_copy_on_write,
  hit_covers_last_token,
  hit_ignores_window,
  window_freed_too_early,
  window_never_freed,
  evicted_block_stays_indexed,
  fork_shares_without_reference,
  // engine
  seed_redrawn_on_resume,
  position_reset_on_resume,
  recompute_counted_as_hit,
  finished_twice,
  stale_row_committed,
  nan_blocks_stay_indexed,
  preempts_first_of_order,
  admits_beyond_max_seqs,
  chunk_off_by_one,
  cancel_ignored_while_waiting,
  preempted_never_resumed,
  choice_not_in_draw,
  error_leaks_blocks,
  stop_text_leaks,
  late_token_from_wrong_row,
  output_after_end,
  count
};

#ifdef PAGODA_PLANTED_BUGS
inline thread_local PlantedBug active_planted_bug = PlantedBug::none;
inline bool planted(PlantedBug bug) {
  return active_planted_bug == bug;
}
#else
constexpr bool planted(PlantedBug) {
  return false;
}
#endif

}  // namespace pagoda
