// Package link runs the scenario of a cluster's agent and a control plane: the agent runs in the
// one-node cluster, whose network accepts connections of the cluster only, and the control plane is
// the server library on a machine outside.
//
//	Story         the scenario, inside the cluster's network      story.go
//	controlPlane  the server, on its machine                      controlplane.go
//	requests      what users send through the link                requests.go
package link
