package serve

import (
	"context"
	"errors"
	"log/slog"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"switchyard.dev/eventbus/event"
	"switchyard.dev/routeserver/table"
	"switchyard.dev/xds/translate"
)

// View is the newest routing table: routeserver/view has one.
type View interface {
	// Current gives the newest table and a channel that is closed when there is
	// a newer one.
	Current() (table.Table, <-chan struct{})
}

// ViewConfig is what FromView needs.
type ViewConfig struct {
	// View has the table. Required.
	View View
	// Identify tells whose token this is: a pod and the baseline that it belongs
	// to. Its errors are gRPC statuses, as Sessions.Open wants them. Required;
	// xds/identify has one.
	Identify func(ctx context.Context, token string) (Peer, error)
	// Logger is told of rules that cannot be translated. Default: none.
	Logger *slog.Logger
}

// Validate tells what is wrong with a ViewConfig, or nil.
func (c ViewConfig) Validate() error {
	if c.View == nil || c.Identify == nil {
		return errors.New("xds: ViewConfig needs a View and Identify")
	}
	return nil
}

// FromView lets pods have the routes of their own workload, from the newest
// table.
func FromView(c ViewConfig) (Sessions, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &viewSessions{ViewConfig: c, translations: newTranslations(c.Logger)}, nil
}

type viewSessions struct {
	ViewConfig
	translations *translations
}

// Open is Sessions.Open.
func (v *viewSessions) Open(ctx context.Context, token string) (Session, error) {
	peer, err := v.Identify(ctx, token)
	if err != nil {
		return Session{}, err
	}
	translation := v.translations.acquire(peer.Workload)
	return Session{
		Peer:   peer,
		Allows: func(_, name string) error { return own(peer, name) },
		Source: viewSource{v.View, translation},
		Reached: func(version string) (string, event.Pos) {
			t, _ := v.View.Current()
			return translation.reached(t, version)
		},
		Close: func() { v.translations.release(translation) },
	}, nil
}

// own refuses names of other workloads.
func own(peer Peer, name string) error {
	if name == translate.RouteName(peer.Workload) {
		return nil
	}
	return status.Errorf(codes.PermissionDenied, "pod %s/%s belongs to %s %s/%s and may not have %.200q",
		peer.Namespace, peer.Pod, peer.Workload.Kind, peer.Workload.Namespace, peer.Workload.Name, name)
}

// viewSource is the routes of one workload in the newest table.
type viewSource struct {
	view        View
	translation *translation
}

// Resources is Source.Resources.
func (s viewSource) Resources() ([]translate.Resource, <-chan struct{}) {
	t, changed := s.view.Current()
	if !t.Whole() {
		return nil, changed
	}
	return s.translation.of(t), changed
}
