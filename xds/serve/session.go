package serve

import (
	"context"
	"time"

	"switchyard.dev/eventbus/event"
	"switchyard.dev/routeserver/table"
	"switchyard.dev/xds/translate"
)

// Peer is the client of a stream.
type Peer struct {
	// Workload is the baseline that the client routes for.
	Workload table.Workload
	// Namespace, Pod and UID name its pod. UID also counts as its identity:
	// limits are per UID.
	Namespace, Pod, UID string
}

// Session is one peer's right to a stream.
type Session struct {
	Peer Peer
	// Allows returns nil for a name that the peer may ask for; any other error
	// ends the stream and should be a gRPC status. It is called from the same
	// goroutine as Source's Resources, and for each name before them.
	Allows func(typeURL, name string) error
	// Source has what the peer is to have.
	Source Source
	// Settled, if not nil, receives the state of every subscription after the client has
	// accepted or refused a response, and after it has listed its versions from an earlier
	// stream, on which its answer may have been lost. The stream waits for it.
	Settled func(Peer, []Status)
	// Receipt, if not nil, selects the resources that Acks reports: those with a version that
	// covers all others. Nil: all.
	Receipt func(typeURL, name string) bool
	// Overdue, if not nil, returns the moment since which a version is not the one
	// due any more; zero when it is, or that is not known.
	Overdue func(version string) time.Time
	// Reached, if not nil, returns the version that is due now, "" when nothing is
	// known, and the newest position of the table at which the given version was
	// the one due; the zero Pos when that is not known.
	Reached func(version string) (due string, reached event.Pos)
	// Close, if not nil, is called once when the stream has ended.
	Close func()
}

// Source has the resources for one peer.
type Source interface {
	// Resources returns what there is now, and a channel that is closed when it is
	// worth asking again. The resources are sorted by type and name. Nil (not
	// empty) ones: nothing is known yet.
	Resources() ([]translate.Resource, <-chan struct{})
}

// Sessions lets peers in.
type Sessions interface {
	// Open returns the session of the client that presents the token. An error should be a gRPC
	// status: Unauthenticated or PermissionDenied when a retry is useless, Unavailable
	// otherwise.
	Open(ctx context.Context, token string) (Session, error)
}
