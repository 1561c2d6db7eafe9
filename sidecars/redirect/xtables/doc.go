// Package xtables reads and writes the nat table of legacy iptables, as a value,
// in the form in which the kernel gives and takes it: that of ip_tables.h and
// ip6_tables.h of its published headers, on machines of 64 bits.
//
//	Parse    the kernel's bytes -> Table
//	Set      our chain put in, or replaced, with a jump to it first in PREROUTING
//	Request  Table -> the bytes of the request that replaces all of it
//	Chain    the rules in our chain, and whether it is evaluated first
//
// A Table keeps unknown content unchanged: rules, matches and targets of other programs are
// copied as bytes, and only their jump offsets are rewritten. Their packet counters begin at
// zero again, as with any replacement.
//
// The kernel takes a whole table in one system call, which is why the rules of
// one family are there all or not at all. It checks each entry before it does.
//
// The program iptables-legacy-restore does the same, but opens a raw socket for
// it, which takes the capability NET_RAW; any socket does, and NET_ADMIN alone.
//
// It is pure: package redirect makes the system calls.
package xtables
