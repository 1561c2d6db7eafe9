package serve

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"switchyard.dev/eventbus/event"
	"switchyard.dev/routeserver/table"
	"switchyard.dev/xds/translate"
)

// View is the newest routing table: routeserver/view has one.
type View interface {
	// Current returns the newest table and a channel that is closed when there is
	// a newer one.
	Current() (table.Table, <-chan struct{})
}

// ViewConfig is what FromView needs.
type ViewConfig struct {
	// View has the table. Required.
	View View
	// Identify returns the pod that a token belongs to, and its baseline. Its errors are gRPC
	// statuses, as Sessions.Open requires. Required; xds/identify has one.
	Identify func(ctx context.Context, token string) (Peer, error)
	// Logger logs rules that cannot be translated. Default: none.
	Logger *slog.Logger
}

// Validate returns an error if the ViewConfig is not valid.
func (c ViewConfig) Validate() error {
	if c.View == nil || c.Identify == nil {
		return errors.New("xds: ViewConfig needs a View and Identify")
	}
	return nil
}

// FromView lets pods have the routes of their own workload, from the newest
// table: as one resource, or in parts.
func FromView(c ViewConfig) (Sessions, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return &viewSessions{ViewConfig: c, follower: newFollower(c.View, c.Logger)}, nil
}

type viewSessions struct {
	ViewConfig
	follower *follower
}

// Open is Sessions.Open.
func (v *viewSessions) Open(ctx context.Context, token string) (Session, error) {
	peer, err := v.Identify(ctx, token)
	if err != nil {
		return Session{}, err
	}
	source := &viewSource{
		follower: v.follower, whole: translate.RouteName(peer.Workload), head: translate.HeadName(peer.Workload),
	}
	return Session{
		Peer:    peer,
		Allows:  func(typeURL, name string) error { return source.allow(peer, typeURL, name) },
		Source:  source,
		Receipt: func(_, name string) bool { return name == source.whole || name == source.head },
		Reached: func(version string) (string, event.Pos) { return v.follower.reached(source.translation, version) },
		Overdue: func(version string) time.Time { return source.translation.overdue(version) },
		Close:   source.close,
	}, nil
}

// viewSource is the routes of one workload in the newest table, in the forms that
// one stream has asked for.
type viewSource struct {
	follower *follower
	// translation is nil until something is asked for: a stream that is turned away
	// costs no translation.
	translation            *translation
	whole, head            string // names
	wantsWhole, wantsParts bool
}

// allow lets a peer have the resources of its own workload, and notes which form
// it asks for.
func (s *viewSource) allow(peer Peer, typeURL, name string) error {
	_, noPart := translate.PlaceOf(peer.Workload, name)
	switch {
	case typeURL == translate.RouteType && name == s.whole:
		s.wantsWhole = true
	case typeURL == translate.PartType && (noPart == nil || name == s.head):
		s.wantsParts = true
	default:
		return refusal(peer, name)
	}
	if s.translation == nil {
		s.translation = s.follower.acquire(peer.Workload)
	}
	return nil
}

func (s *viewSource) close() {
	if s.translation != nil {
		s.follower.release(s.translation)
	}
}

func refusal(peer Peer, name string) error {
	return status.Errorf(codes.PermissionDenied, "pod %s/%s belongs to %s %s/%s and may not have %.200q",
		peer.Namespace, peer.Pod, peer.Workload.Kind, peer.Workload.Namespace, peer.Workload.Name, name)
}

// Resources is Source.Resources.
func (s *viewSource) Resources() ([]translate.Resource, <-chan struct{}) {
	changed := s.translation.changed.Next()
	o := s.translation.offer.Load()
	switch {
	case o.parts == nil || !s.wantsWhole:
		return o.parts, changed
	case !s.wantsParts:
		return o.whole(), changed
	}
	return slices.Concat(o.whole(), o.parts), changed
}

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
