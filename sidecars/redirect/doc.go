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
// They stand at prerouting, which sees only what comes in from outside. What the
// sidecar or the workload sends, and what stays within the pod, never passes
// there, so nobody's own traffic needs an exception, whoever runs as whom, and a
// port-forward reaches the workload directly. The first packet of a connection
// decides, so connections that stand are not touched. Only TCP is redirected.
//
// Kubelet probes of the workload's ports go through the sidecar, which has no
// route for them and passes them on: the source address of a probe cannot be
// told from that of a request that came in through a node port, and leaving
// those alone would send their routing keys to the baseline. A probe that only
// opens a connection (tcpSocket) would find the sidecar listening, and so say
// nothing about the workload: the injector makes a question to the sidecar of it.
//
// # With nftables
//
// One table, "switchyard", with one NAT chain, of the inet family, which covers
// IPv4 and IPv6. A kernel that cannot do NAT there (before 5.2) gets the same
// rules in a table of each family. All of it is one netlink transaction.
//
// # With legacy iptables
//
// One chain, SWITCHYARD_INBOUND, in the nat table of each family, to which the
// first rule of PREROUTING leads; each rule carries the comment "switchyard"
// where the kernel knows comments. Each family's table is replaced in one system
// call, with what others have there kept (package xtables). A pod without an
// address of IPv6 gets none where the kernel has no such table.
//
// # Which of the two
//
// Spec.Mode says; ModeAuto tries nftables, and takes legacy iptables only when
// the kernel says that it lacks nftables or NAT for it. Result says which it was
// and why, and so does the log of the init container.
//
// # How they are applied
//
// The kernel takes each transaction whole or not at all, so a program killed half
// way leaves in each family the rules of before or those meant, and running it
// again leaves the same rules as running it once. Nothing of others is changed.
// Apply then reads the rules back and compares, so the init container ends well
// only when the redirection is in force. They are never removed: the pod's
// network namespace goes with the pod. Rules of the other mode, from an earlier
// run of the same init container on a kernel that has since loaded modules, stay
// beside them and say the same, for a pod's ports do not change.
//
// Users owe CAP_NET_ADMIN in the network namespace.
package redirect
