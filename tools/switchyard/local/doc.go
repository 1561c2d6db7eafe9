// Package local has the commands of switchyard for a workload on a workstation: connect, proxy,
// run, doctor and tunnel.
//
//	the road, whom to trust                      place.go, road.go, roots.go
//	the token                                    identity
//	connect, proxy                               connect.go
//	connect status                               status
//	what connect and proxy listen on, the key    ways.go, header.go
//	connect with privileges                      privileges
//	run; a baseline's environment and files      run.go, standing
//	what may be wrong, part by part              doctor.go, checks.go
//	a certificate for SSH                        sshcert.go
//
// What runs is tunnels/workstation, which knows no kubeconfig. What a process has in its
// baseline's place is tunnels/workstation/standin.
package local
