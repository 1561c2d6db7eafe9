package api

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"switchyard.dev/eventbus/wake"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
)

const (
	// maxNamespaces bounds the namespaces that a caller may name, and those that are checked for
	// a caller that names none.
	maxNamespaces = 256
	// atOnce is the maximum number of Services in a message.
	atOnce = 500
	// calm is how long changes are collected before they are sent.
	calm = 100 * time.Millisecond
)

// scope is the namespaces in which a caller may see Services.
type scope struct {
	all  bool
	some []string // in order
}

// visible reports whether a namespace is one of them.
func (s scope) visible(namespace string) bool {
	if s.all {
		return true
	}
	_, is := slices.BinarySearch(s.some, namespace)
	return is
}

// name names the scope in positions.
func (s scope) name() string {
	if s.all {
		return "all"
	}
	sum := sha256.Sum256([]byte(strings.Join(s.some, ",")))
	return hex.EncodeToString(sum[:8])
}

// scopeOf returns the visible namespaces among those that a caller names, or among all.
func (s *server) scopeOf(ctx context.Context, c caller, named []string) (scope, error) {
	if len(named) > maxNamespaces {
		return scope{}, status.Errorf(codes.InvalidArgument, "%d namespaces are named; %d at most are watched", len(named), maxNamespaces)
	}
	all := s.cfg.Access.MayListServices(ctx, c.user, "")
	if all.GetReason() == tunnelv1.Reason_REASON_UNAVAILABLE {
		return scope{}, refusal(all)
	}
	if all == nil && len(named) == 0 {
		return scope{all: true}, nil
	}
	asked := slices.Compact(slices.Sorted(slices.Values(named)))
	if len(named) == 0 {
		if asked = s.services.namespaces(); len(asked) > maxNamespaces {
			return scope{}, status.Errorf(codes.PermissionDenied, "%s and there are more than %d namespaces: name those that you want", strings.TrimSuffix(all.GetMessage(), "."), maxNamespaces)
		}
	}
	var out scope
	for _, namespace := range asked {
		refused := s.cfg.Access.MayListServices(ctx, c.user, namespace)
		switch {
		case all == nil, refused == nil:
			out.some = append(out.some, namespace)
		case len(named) > 0, refused.GetReason() == tunnelv1.Reason_REASON_UNAVAILABLE:
			return scope{}, refusal(refused)
		}
	}
	if len(out.some) == 0 {
		return scope{}, refusal(all)
	}
	return out, nil
}

// position encodes a position in the log of Services.
func (s *server) position(at uint64, seen scope) string {
	return strings.Join([]string{s.services.epoch, strconv.FormatUint(at, 10), seen.name()}, ".")
}

// errBegin is the answer to a position that is not valid.
var errBegin = status.Error(codes.OutOfRange, "the position is not known any more: begin again without one")

// after decodes a position; an empty one is the beginning.
func (s *server) after(position string, seen scope) (uint64, error) {
	if position == "" {
		return 0, nil
	}
	parts := strings.Split(position, ".")
	if len(parts) != 3 || parts[0] != s.services.epoch || parts[2] != seen.name() {
		return 0, errBegin
	}
	at, err := strconv.ParseUint(parts[1], 10, 64)
	if err != nil {
		return 0, errBegin
	}
	return at, nil
}

// WatchServices implements tunnelv1.TunnelAPIServer.
func (s *server) WatchServices(request *tunnelv1.WatchServicesRequest, stream grpc.ServerStreamingServer[tunnelv1.WatchServicesResponse]) error {
	ctx, cancel := context.WithTimeout(stream.Context(), streamWithin)
	defer cancel()
	c, leave, err := s.admit(ctx, s.streams)
	if err != nil {
		return err
	}
	defer leave()
	seen, err := s.scopeOf(ctx, c, request.GetNamespaces())
	if err != nil {
		return err
	}
	at, err := s.after(request.GetPosition(), seen)
	if err != nil {
		return err
	}
	again := time.NewTicker(s.cfg.AskAgain)
	defer again.Stop()
	for begun := false; ; begun = true {
		changed := s.services.changed.Next()
		d, known := s.services.since(at, seen.visible)
		if !known {
			return errBegin
		}
		if at != d.to || !begun {
			if err := s.send(stream, d, seen); err != nil {
				return err
			}
			at = max(d.to, at)
		}
		if err := s.rest(ctx, changed, again.C, func() error {
			if err := s.stays(ctx, c); err != nil {
				return err
			}
			now, err := s.scopeOf(ctx, c, request.GetNamespaces())
			if status.Code(err) == codes.Unavailable {
				return nil
			}
			if err == nil && now.name() != seen.name() {
				err = errBegin
			}
			return err
		}); err != nil {
			return err
		}
	}
}

// send sends a difference, in parts.
func (s *server) send(stream grpc.ServerStreamingServer[tunnelv1.WatchServicesResponse], d difference, seen scope) error {
	for len(d.changed) > atOnce || len(d.gone) > atOnce {
		part := &tunnelv1.WatchServicesResponse{Changed: d.changed[:min(atOnce, len(d.changed))], Gone: d.gone[:min(atOnce, len(d.gone))]}
		if err := stream.Send(part); err != nil {
			return err
		}
		d.changed, d.gone = d.changed[len(part.Changed):], d.gone[len(part.Gone):]
	}
	return stream.Send(&tunnelv1.WatchServicesResponse{Changed: d.changed, Gone: d.gone, Position: s.position(d.to, seen), Synced: true})
}

// rest waits until something changed, and for calm after that; at each tick of again it calls may
// to check that the caller still has its rights, however much changes.
func (s *server) rest(ctx context.Context, changed <-chan struct{}, again <-chan time.Time, may func() error) error {
	for {
		select {
		case <-changed:
			wake.Sleep(ctx, calm)
			return s.ended(ctx)
		case <-again:
			if err := may(); err != nil {
				return err
			}
		case <-ctx.Done():
			return s.ended(ctx)
		case <-s.stopping:
			return status.Error(codes.Unavailable, "tunnel-api ends: call again")
		}
	}
}

// ended returns why a stream is over, or nil.
func (s *server) ended(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return status.Error(codes.Unavailable, "the stream has lasted long enough: open another")
}
