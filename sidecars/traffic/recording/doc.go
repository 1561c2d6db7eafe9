// Package recording records the traffic of a sandbox's members with the rights of a user: without flags, files and
// printing.
//
//	Record     creates a TrafficCapture in each namespace with members, keeps its lease, deletes it    record.go
//	follow     reads a TrafficCapture that exists                      follow.go
//	Progress   where a recording continues, and its counts            progress.go
//	reading    every replica of traffic-manager, again where it was interrupted; each exchange once  read.go
//	Tickets    the tickets of captures, and connections to replicas   tickets.go
package recording
