// Package replay sends recorded requests of a fork again, to the fork and to its baseline, and compares the answers.
//
//	Select    which requests are sent, and why the others are not    request.go
//	Find      the fork and the baseline of a request in a cluster    find.go
//	Run       sends each k times to both sides in turn               run.go, send.go
//	Report    what differs, by endpoint                              report.go
//
// Requests with a red difference are sent k more times, and it stays red only if it is red over all of these runs. A place
// with two values by chance is then red in at most one of 2,048 comparisons for k = 3, not one of 32.
package replay
