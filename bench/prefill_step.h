// A mixed step: decode attention over 64 sequences of 4k keys and a chunk of 512 new tokens of one
// prompt, in one CUDA graph, against each alone. Prints its own table.
#pragma once

namespace pagoda::cuda {

void step_lines();

}  // namespace pagoda::cuda
