# Shared by the scripts: installing what is missing, building a preset. Sourced, not run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf '== %s\n' "$*" >&2; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

build_packages=(g++ cmake ninja-build pkg-config git ca-certificates python3 python3-pip
  libfmt-dev libspdlog-dev nlohmann-json3-dev libcli11-dev libpcre2-dev libutf8proc-dev libxxhash-dev libedit-dev)
test_packages=(libgtest-dev libgmock-dev python3-pytest
  clang-19 libclang-rt-19-dev)

# install PACKAGE...: those that are missing, from the distribution.
install() {
  local missing=() package
  for package in "$@"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  local as_root=()
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || die "not root and no sudo: install ${missing[*]} and run this again"
    as_root=(sudo)
  fi
  say "installing ${missing[*]}"
  "${as_root[@]}" apt-get update -qq >&2
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null ||
    die "apt-get could not install ${missing[*]}"
}

# build PRESET TARGET...
build() {
  local preset=$1
  shift
  [ -f "build/$preset/build.ninja" ] || cmake --preset "$preset" ${cmake_flags:-} >"build-$preset.log" 2>&1 ||
    { cat "build-$preset.log" >&2; die "cmake failed for $preset"; }
  rm -f "build-$preset.log"
  say "building $preset"
  cmake --build "build/$preset" --target "$@" >&2 || die "the build of $preset failed"
}

models_folder() {
  printf '%s\n' "${PAGODA_MODELS:-${XDG_CACHE_HOME:-$HOME/.cache}/pagoda/models}"
}
