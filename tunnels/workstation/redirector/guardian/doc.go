// Package guardian removes rules of pf when the program that loaded them ends, however that ends.
//
// Rules of pf have no owner: they stay until they are flushed. So a second process, the guardian,
// runs pfctl. It is this program again, in a session of its own, which receives the rules over a
// pipe. The pipe closes with the program at its other end, also by kill -9, and the guardian then
// removes the rules and releases its reference to pf. It runs pfctl sequentially, so nothing is
// loaded after that. When the guardian is killed, the program removes the rules; when both are
// killed at once, the next guardian removes the leftovers first.
//
// There is one guardian at a time on a machine: it locks a file of the system, and does not
// change it.
//
// Nothing here is specific to macOS, so that it is tested where there is no pf.
package guardian
