// Package receipts reports the versions that DevMesh sidecars have acknowledged, over all route
// servers. Sidecar and Receipts.Wait document the guarantees of an acknowledgement.
package receipts

import (
	"context"
	"time"

	"switchyard.dev/eventbus/event"
	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/routeserver/api/versions"
	"switchyard.dev/routeserver/table"
)

// Sidecars knows the DevMesh sidecars that are connected to this route server.
type Sidecars interface {
	// Sidecars returns one entry for each sidecar, sorted by namespace and pod.
	Sidecars() []Sidecar
}

// Acknowledging can be implemented by Sidecars that notify of acknowledgements. Without it a Wait
// polls several times a second.
type Acknowledging interface {
	// Acknowledged returns a channel that is closed at the next change of the result of Sidecars: a
	// sidecar has connected, disconnected, acknowledged or rejected something.
	Acknowledged() <-chan struct{}
}

// Sidecar is what one connected sidecar has acknowledged.
type Sidecar struct {
	// Namespace and Pod name its pod; Baseline is the workload of that pod.
	Namespace, Pod string
	Baseline       table.Workload
	// Acknowledged is the version of its workload's rules that it acknowledged
	// last, Due the one it is to have; "" for none.
	Acknowledged, Due string
	// Rejected is the message of the last update that the sidecar rejected, or "".
	Rejected string
	// Reached is the newest position such that the sidecar has acknowledged the rules for its
	// workload at that position; zero if unknown.
	Reached event.Pos
}

// Peers are the other route servers of the same log.
type Peers interface {
	// Sidecars queries each of them for the sidecars connected to it, and returns the results and
	// the addresses of those that did not respond in time.
	Sidecars(ctx context.Context, filter *routingv1.Filter) (sidecars []*routingv1.Sidecar, silent []string)
}

// Receipts answers Sidecars and Wait. Make one with New.
type Receipts struct {
	versions *versions.Versions
	// connected are the sidecars connected here; nil without any. The other route servers
	// are asked directly, or, by many at once, through others.
	connected Sidecars
	peers     Peers
	others    others
	// name is what this route server is called.
	name string
	here shared[[]Sidecar]
	// rested is the earliest time for the next listing of local sidecars. Only the goroutine that
	// runs the current round reads and writes it.
	rested time.Time
}

// New returns the receipts of the sidecars that are connected to this route server, of
// this name, and to its peers; either may be nil.
func New(v *versions.Versions, connected Sidecars, peers Peers, name string) *Receipts {
	return &Receipts{
		versions: v, connected: connected, peers: peers, name: name,
		others: others{peers: peers, self: name, asked: map[table.Workload]*asked{}},
	}
}
