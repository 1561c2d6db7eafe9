// Package guardian takes rules of pf away when the program that holds them ends, however that ends.
//
// Rules of pf have no owner: they stay until somebody flushes them. So a second process, the
// guardian, is what runs pfctl. It is this program again, in a session of its own, told what to load
// over a pipe; the pipe closes with the program at its other end, also by kill -9, and the guardian
// then takes the rules away and gives up its reference to pf. It runs pfctl for one thing after the
// other, so nothing is loaded after that. Where the guardian is killed, the program takes the rules
// away; what is left where both are killed at once, the next one takes away first.
//
// There is one at a time on a machine: a file of the system is locked, and not changed.
//
// Nothing here is of macOS alone, so that it is tested where no pf is.
package guardian
