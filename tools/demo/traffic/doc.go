// Package traffic runs the scenario of recorded requests: a sandbox with two forks of HotROD, of which one answers otherwise, is
// recorded from a developer's machine, and its answers are compared with those of the baselines.
//
//	record and compare   story.go
package traffic
