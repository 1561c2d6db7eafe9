// Package hostile attacks the xDS endpoint, as a compromised pod could, and measures the cost: the
// peak of additional memory of its process, and the time until it is released. During the attack
// legitimate sidecars are served, each change to all of them.
//
// The endpoint is the real one, in a separate process, with a real API server behind it: attackers
// have tokens of real pods, forged ones, or none. Attacks are values (Attacks); each sends a given
// number of requests, knows the correct responses, and fails on any other.
//
// A program or test that uses it must follow the requirements of package process: in the role Role
// it answers with a Target.
package hostile
