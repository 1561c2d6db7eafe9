// Package hostile attacks the xDS endpoint, as a compromised pod could, and measures the cost:
// how much more memory its process takes at most, and how soon it has released that. During the
// attack honest sidecars are served, each change to all of them.
//
// The endpoint is the real one, in a process of its own, with a real API server
// behind it: attackers have tokens of real pods, false ones, or none. Attacks are
// values (Attacks); each makes so many requests, knows which answers are right,
// and fails on any other.
//
// A program or test that uses it owes what package process asks for: in the role
// Role it answers with a Target.
package hostile
