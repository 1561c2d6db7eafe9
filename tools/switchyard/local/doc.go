// Package local contains the commands of switchyard for a workload on a workstation: connect,
// proxy, run, override, doctor and tunnel.
//
//	the connection, trusted authorities          place.go, road.go, roots.go
//	the token                                    identity
//	connect, proxy                               connect.go
//	connect status                               status
//	local listeners, the routing key             ways.go, header.go
//	connect with privileges                      privileges
//	run; a baseline's environment and files      run.go, localenv
//	override                                     overrides
//	diagnosis, part by part                      doctor.go, checks.go
//	a certificate for SSH                        sshcert.go
//
// The implementation is in tunnels/workstation, which does not read a kubeconfig.
// tunnels/workstation/containerenv determines the environment and files of a process that replaces a
// baseline.
package local
