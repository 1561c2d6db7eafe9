// Package hold has the kernel redirect connections of one user, by redirect's rules, for as long as
// this process lives, and says where a connection that was led here was to go.
//
// On Linux the rules are in a table of nftables with an owner, our netlink socket: the kernel
// takes the table away when the socket closes, however the process ends, and nobody else can
// change it meanwhile. The messages are ours, since a child such as nft -i would be one more thing
// that can outlive us, and a program that has to be installed.
//
// On macOS they are in an anchor of pf, which has no owner: hold/guardian takes them away. The rules
// are for one user other than root, and connections of this program, which runs as root, pass. The
// system keeps /etc/resolv.conf there for programs such as ours. No Mac was at hand: it is compiled,
// what it tells pf and reads from it is tested as text and bytes, and the guardian with a script in
// place of pfctl. Elsewhere nothing can be held.
package hold

// Mark is that of the sockets of ours that pass, so that what leads does not lead to itself.
const Mark = 0x5359
