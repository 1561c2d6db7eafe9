// Package noise learns from runs of a baseline how its answers vary, and judges those of a fork.
//
// A place is a path of values over all runs of both sides. Each test takes a property of the values (their type, their format, the
// value itself) and is red only if the property is the same in all runs of the baseline, the same in all runs of the fork, and the
// two differ: a property that varies at random in at least one run of either side is noise. A property that has one of two results at
// random in each run, independently, is red with a chance of at most 2^(1-k-n) for k runs of the baseline and n of the fork (Level).
// Numbers that vary are compared by their ranges.
//
//	place.go    places, and the properties that are consistent in them
//	judge.go    the walk over objects, and the tests of scalars
//	lists.go    lists: sequence, set or bag, and the alignment of elements
//	format.go   formats of texts
//	number.go   numbers, times and counters that vary
//	finding.go  what a judgement states
//	explain.go  a finding in plain words
package noise
