// Package routing is the HTTP proxy of a runner's pod, through which a script sends its requests: it adds the routing
// key of the job's sandbox or route group to them, and counts them.
//
//	environment  the variables by which clients find the proxy, and values of no_proxy that keep them from it (pure)
//	sniff        the protocol in a tunnel (pure)
//	proxy        requests with an absolute URL; the executions, and the counts of each
//	tunnel       CONNECT
//	redirect     connections that the pod redirects here (sidecars/redirect), which are served as tunnels are
//
// Requests with an absolute URL, and HTTP/1.1 and HTTP/2 without TLS in a tunnel of CONNECT, get the key in all published
// forms (xds/routingkey) unless they have one. All other content of a tunnel, such as TLS, is copied byte for byte, and
// the tunnel counts as one request without a key.
//
// Redirected connections of the time between jobs, and of jobs without trafficManager, are copied.
//
// The proxy listens on the loopback interface of the pod, and connects from the same pod: a script can reach nothing
// through it that it cannot reach by itself.
package routing
