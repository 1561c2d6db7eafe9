// Package targets tests what `make test` makes of groups that fail. The Makefile and
// its scripts are the real ones; the go command and the program of tools/cluster
// only write down what they were called with, and fail where a test wants it.
package targets
