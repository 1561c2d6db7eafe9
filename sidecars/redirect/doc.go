// Package redirect turns a pod's inbound connections to its sidecar, with
// nftables rules in the pod's network namespace, written over netlink: no
// shell, no iptables program.
//
// # The rules
//
// One table, "switchyard", with one NAT chain at prerouting:
//
//	iifname "lo" return
//	tcp dport 15006 return          one for each port that stays untouched
//	tcp dport 8080 tcp flags & (fin|syn|rst|ack) == syn redirect to :15006
//	                                one for each port of the workload, or one
//	                                for all TCP
//
// Prerouting sees only what comes in from outside. What the sidecar or the
// workload sends, and what stays within the pod, never passes here, so the
// sidecar's own connections to the workload need no exception, and a
// port-forward reaches the workload directly. The first packet of a connection
// decides, so connections that stand are not touched. Only TCP is redirected.
//
// Kubelet probes of the workload's ports go through the sidecar, which has no
// route for them and passes them on: the source address of a probe cannot be
// told from that of a request that came in through a node port, and leaving
// those alone would send their routing keys to the baseline. A probe that only
// opens a connection (tcpSocket) finds the sidecar listening, and so says
// nothing about the workload: use one that asks something.
//
// The inet family covers IPv4 and IPv6 in one table. A kernel that cannot do NAT
// there (before 5.2) gets the same rules in a table of each family.
//
// # How they are applied
//
// Apply replaces our table in one netlink transaction: the kernel takes all of
// it or nothing, so a program killed half way leaves the rules of before, and
// running it again leaves the same rules as running it once. No other table is
// read or changed. Apply then reads the rules back and compares, so the init
// container ends well only when the redirection is in force. They are never
// removed: the pod's network namespace goes with the pod.
//
// Users owe CAP_NET_ADMIN in the network namespace.
package redirect
