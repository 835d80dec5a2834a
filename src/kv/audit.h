// audit: the books of a KvCache against the tables of all live sequences. Read-only; for debug
// builds, tests and the simulation, after every step.
//
// Checked: every block is free, referenced or cached-idle, and counted so; references = table
// entries + pins; a block is cached exactly if the index names it, at the node that its tokens lead
// to; tables are as long as their sequence, with -1 only behind a window.
#pragma once

#include <span>
#include <string>

#include "kv/kv_cache.h"

namespace pagoda {

// "" or what is wrong.
std::string audit(const KvCache& kv, std::span<const SequenceKv* const> sequences);

}  // namespace pagoda
