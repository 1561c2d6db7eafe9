// Package local has the commands of switchyard for a workload on a workstation: connect, proxy,
// run, doctor, tunnel, and of sandbox get-env and get-files.
//
//	the road, whom to trust, the token           place.go, road.go, roots.go, token.go
//	connect, connect status                      connect.go, status.go
//	proxy, and what both listen on               proxy.go, ways.go
//	a baseline's environment and files           baseline.go, env.go, files.go, run.go
//	what may be wrong, part by part              doctor.go
//	a certificate for SSH                        sshcert.go
//
// What runs is tunnels/workstation, which knows no kubeconfig. What a process has in its
// baseline's place is tunnels/workstation/standin.
package local
