// Package trafficcapture reconciles TrafficCaptures: it attaches the containers of forks that record requests, has the
// forks' Services send requests to them, and takes both back when a capture ends.
//
//	gather    the forks with their pods, Services and routing, and what the containers report   gather.go
//	Decide    the next status                                                                  decide.go   pure
//	  end       whether the capture has ended, and how far its end is                             decide_end.go
//	  fork      what one fork still needs                                                         decide_fork.go
//	Counts    asks the replicas of traffic-manager                                              counts.go
//	act       writes the status and the finalizer                                               reconciler.go
//
// The status is the only thing that it writes. traffic-manager gives a pod the captures with its UID in status.pods;
// package forkedworkload changes the Services of the forks in status.redirected.
//
// # Begin
//
// Attach the pods; wait until the container of each ready pod is listening, and until the second Service of each
// Service answers (services.TrafficName); redirect the fork; wait until every proxy has acknowledged the second Service. Then the
// capture is Ready: proxies open new connections for another Service, so each request that begins later is recorded.
// A pod that starts later gets no request before its container is listening, by its startup probe. If a ready
// pod is not listening nonetheless, the redirection is taken back.
//
// # Not recorded
//
// The condition of a ready capture names ports that a Service got after the capture began, and headless Services of the baseline,
// beside others, for which no mesh routes requests to the member: neither is recorded.
//
// # End
//
// A lease that is not renewed, the time limit, the end of the sandbox, a deletion, or captures being disabled. The forks are
// no longer redirected; when every proxy has acknowledged that, and after a drain, the pods are detached. A capture
// that has ended stays so. No pod is restarted by any of this.
//
// Record 0080 (tools/adr) has the reasons.
package trafficcapture
