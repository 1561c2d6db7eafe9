// Package targets tests the behavior of `make test` when groups fail. The Makefile and its scripts
// are the real ones; the go command and the program of tools/cluster are replaced by fakes that
// record their arguments and fail where a test requires it.
package targets
