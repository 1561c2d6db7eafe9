// Package redirector makes the kernel redirect connections of one user, by redirect's rules, for as
// long as this process runs, and returns the original destination of a redirected connection.
//
// On Linux the rules are in a table of nftables with an owner, a netlink socket of this process:
// the kernel removes the table when the socket closes, however the process ends, and no other
// process can change it. The messages are sent from here, since a child such as nft -i could
// outlive this process, and would have to be installed.
//
// On macOS they are in an anchor of pf, which has no owner: redirector/guardian removes them. The rules
// are for one user other than root, and connections of this program, which runs as root, pass.
// The system maintains /etc/resolv.conf there for programs like this one. It was not run on a
// Mac: it is compiled, its input for pf and its parsing of pf's output are tested as text and
// bytes, and the guardian with a script instead of pfctl. Other systems are not supported.
package redirector

// Mark is the mark of this program's own sockets, which pass, so that redirection does not loop.
const Mark = 0x5359
