package api

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authentication "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorization "k8s.io/client-go/kubernetes/typed/authorization/v1"

	"switchyard.dev/eventbus/callers"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tunnels/access"
)

// office knows the user ada by any token until it has forgotten her, and lets her do everything.
type office struct {
	authentication.TokenReviewInterface
	forgotten atomic.Bool
}

// Create implements authentication.TokenReviewInterface.
func (o *office) Create(context.Context, *authenticationv1.TokenReview, metav1.CreateOptions) (*authenticationv1.TokenReview, error) {
	return &authenticationv1.TokenReview{Status: authenticationv1.TokenReviewStatus{Authenticated: !o.forgotten.Load(), User: authenticationv1.UserInfo{Username: "ada"}}}, nil
}

// generous allows everything.
type generous struct {
	authorization.SubjectAccessReviewInterface
}

// Create implements authorization.SubjectAccessReviewInterface.
func (generous) Create(context.Context, *authorizationv1.SubjectAccessReview, metav1.CreateOptions) (*authorizationv1.SubjectAccessReview, error) {
	return &authorizationv1.SubjectAccessReview{Status: authorizationv1.SubjectAccessReviewStatus{Allowed: true}}, nil
}

// newOffice returns a server that uses an office, and a function that expires its cached answers.
func newOffice(t *testing.T) (*server, *office, func()) {
	t.Helper()
	o, begun, passed := &office{}, time.Now(), atomic.Int64{}
	a, err := access.New(access.Config{Tokens: o, Rights: generous{}, Clock: func() time.Time { return begun.Add(time.Duration(passed.Load())) }})
	if err != nil {
		t.Fatal(err)
	}
	s := &server{cfg: Config{Access: a, AskAgain: 50 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)}, services: newServices("cluster.local"),
		streams: callers.NewPool("watches", callers.Bounds{Each: 16, Pods: 64}), stopping: make(chan struct{}), known: func(string, string) {}}
	s.ready.Store(true)
	return s, o, func() { passed.Add(int64(2 * time.Minute)) }
}

// listener receives the answers.
type listener struct {
	grpc.ServerStreamingServer[tunnelv1.WatchServicesResponse]
	ctx context.Context
}

func (l listener) Context() context.Context                   { return l.ctx }
func (l listener) Send(*tunnelv1.WatchServicesResponse) error { return nil }

// A caller that has lost its rights receives no more Services, also while changes are continuous.
func TestRightsAreRecheckedHoweverMuchChanges(t *testing.T) {
	s, o, forget := newOffice(t)
	s.cfg.AskAgain = time.Second // much longer than it takes until something changes
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	ctx = metadata.NewIncomingContext(ctx, metadata.Pairs("authorization", "Bearer a-token"))
	ctx = peer.NewContext(ctx, &peer.Peer{Addr: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1}, AuthInfo: credentials.TLSInfo{State: tls.ConnectionState{}}})
	go func() {
		for n := 0; ctx.Err() == nil; n++ {
			s.services.set(service("shop", "cart", fmt.Sprintf("10.0.0.%d", 1+n%2)))
			time.Sleep(5 * time.Millisecond)
		}
	}()
	ended := make(chan error, 1)
	go func() { ended <- s.WatchServices(&tunnelv1.WatchServicesRequest{}, listener{ctx: ctx}) }()
	select {
	case err := <-ended:
		t.Fatal("it ends before anything is wrong:", err)
	case <-time.After(300 * time.Millisecond):
	}
	o.forgotten.Store(true)
	forget()
	if err := <-ended; status.Code(err) != codes.Unauthenticated {
		t.Errorf("a caller without rights receives Services: %v", err)
	}
}

// All workstations of a tunnel proxy share one address. A client that presents wrong tokens from
// there does not end the watches of others.
func TestOthersOfTheSameAddressEndNoWatch(t *testing.T) {
	s, o, forget := newOffice(t)
	const from = "192.0.2.1:1"
	user, refused := s.cfg.Access.Identify(t.Context(), "hers", from)
	if refused != nil {
		t.Fatal(refused)
	}
	c := caller{user, "hers", from}
	o.forgotten.Store(true)
	exhausted := errors.New("nothing was exhausted")
	for n := range 1000 {
		if _, refused := s.cfg.Access.Identify(t.Context(), fmt.Sprintf("wrong-%d", n), from); refused.GetReason() == tunnelv1.Reason_REASON_EXHAUSTED {
			exhausted = nil
		}
	}
	if exhausted != nil {
		t.Fatal(exhausted)
	}
	o.forgotten.Store(false)
	forget()
	if err := s.stays(t.Context(), c); err != nil {
		t.Errorf("her watch ends: %v", err)
	}
	o.forgotten.Store(true)
	forget()
	if err := s.stays(t.Context(), c); status.Code(err) != codes.Unauthenticated {
		t.Errorf("it was not asked: %v", err)
	}
}
