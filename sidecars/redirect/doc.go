// Package redirect turns a pod's inbound connections to its sidecar, with rules
// in the pod's network namespace: with nftables, or with legacy iptables where
// the kernel has no nftables. It speaks to the kernel itself: no shell, no
// iptables program, and no capability but NET_ADMIN.
//
// # The rules
//
//	iifname "lo" return
//	tcp dport 15006 return          one for each port that stays untouched
//	tcp dport 8080 tcp flags & (fin|syn|rst|ack) == syn redirect to :15006
//	                                one for each port of the workload, or one
//	                                for all TCP
//
// The hook is prerouting, which sees only traffic from outside. Traffic that the sidecar or the
// workload sends, and that stays within the pod, never passes there, so no exception by user is
// needed for it, and a port-forward reaches the workload directly. The first packet of a
// connection decides, so established connections are not touched. Only TCP is redirected.
//
// Kubelet probes of the workload's ports go through the sidecar, which has no route for them
// and passes them on: the source address of a probe cannot be distinguished from that of a
// request that came in through a node port, and exempting those would send their routing keys
// to the baseline. A probe that only opens a connection (tcpSocket) would reach the sidecar's
// listener, and not test the workload: the injector replaces it by a request to the sidecar.
//
// # Outgoing connections
//
// In a pod that runs jobs, connections that scripts open are redirected to the proxy that adds the
// routing key (Spec.Outgoing). The hook is output, in a table of its own, "switchyard-jobs":
//
//	oifname "lo" return             also connections to the pod's own addresses
//	meta skuid 7441 return          the proxy itself
//	meta mark != 0 return           a mesh in the pod's network
//	ip6 daddr fe80::/10 return      its interface would be lost
//	tcp flags & (fin|syn|rst|ack) == syn redirect to :7442
//
// There is no form of this for legacy iptables.
//
// # With nftables
//
// One table, "switchyard", with one NAT chain, of the inet family, which covers
// IPv4 and IPv6. A kernel that cannot do NAT there (before 5.2) gets the same
// rules in a table of each family. All of it is one netlink transaction.
//
// # With legacy iptables
//
// One chain, SWITCHYARD_INBOUND, in the nat table of each family, to which the first rule of
// PREROUTING jumps; each rule carries the comment "switchyard" where the kernel supports
// comments. Each family's table is replaced in one system call, with the rules of other
// programs kept (package xtables). In a pod without an IPv6 address, no IPv6 rules are written
// where the kernel has no such table.
//
// # Mode
//
// Spec.Mode selects it; ModeAuto tries nftables, and uses legacy iptables only when the kernel
// reports that it lacks nftables or NAT for it. Result contains the mode and the reason, and so
// does the log of the init container.
//
// # How they are applied
//
// The kernel applies each transaction whole or not at all, so a program killed half way leaves
// in each family the previous rules or the intended ones, and running it again leaves the same
// rules as running it once. Rules of other programs are not changed. Apply then reads the rules
// back and compares, so the init container succeeds only when the redirection is in force. They
// are never removed: the network namespace is deleted with the pod. Rules of the other mode,
// from an earlier run of the same init container on a kernel that has since loaded modules,
// stay in addition and have the same effect, because a pod's ports do not change.
//
// Callers need CAP_NET_ADMIN in the network namespace.
package redirect
