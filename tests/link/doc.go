// Package link runs the scenario of a cluster's agent and a control plane: the agent runs in the
// one-node cluster, which accepts no connections from outside, and the control plane is the link
// server on a machine outside.
//
//	Story         the scenario, inside the cluster's network      story.go
//	plane         the server, on its machine                      tests/link/plane
//	Hosted        a control plane from its chart                  hosted.go, hosted_preview.go
//	Jobs          jobs, and a row in the store of a plugin        jobs.go, row.go
//	requests      what users send through the link                requests.go
package link
