// Package door identifies the callers of the routing APIs, over gRPC and over HTTP, and puts the
// caller into the context of the call (callers.From).
//
// The APIs are open: a caller without a token is anonymous, known by its address, and is served. A
// caller with a token of a service account, made for Audience, is known by that account. A program
// of the operator, the manager or another route server, is known by its service account and has
// separate pools, so that no anonymous caller can starve it. A caller with an invalid token is
// treated as anonymous, because proxies add tokens of their own. Where anonymous callers are
// restricted (Config.Anonymous), they are rejected, or receive only the data of the namespace of
// the pod at their address.
//
// Calls of the operator's own programs are encrypted, those of others need not be: a token for this
// audience is accepted nowhere else, and expires after an hour.
package door

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/utils/lru"

	"switchyard.dev/eventbus/callers"
	"switchyard.dev/eventbus/callers/tokens"
	"switchyard.dev/routeserver/podaddr"
	"switchyard.dev/routeserver/published"
)

// Audience is the audience of tokens that are accepted here.
const Audience = "api.routeserver.signadot.svc"

// Config is what a Door needs.
type Config struct {
	// Verify identifies the bearer of a token; it calls admit before it asks the API server
	// (VerifyAdmitted of a tokens.Verifier for Audience). Without Verify all callers are
	// anonymous.
	Verify func(ctx context.Context, token string, admit tokens.Admit) (tokens.Identity, error)
	// Own are the service accounts of the operator's own programs, as namespace/name.
	Own []string
	// Anonymous sets the access of callers without a valid token. Probes are always answered.
	Anonymous Anonymous
	// Namespace returns the namespace of the caller at an address: that of a
	// podaddr.Finder. Without it no caller's is known.
	Namespace func(ctx context.Context, address netip.Addr) (string, error)
	// LookAgain is how often the caller of a stream that is narrowed to its namespace is
	// identified again. Default: 15 s.
	LookAgain time.Duration
}

// Door identifies callers. For a nil Door all callers are anonymous.
type Door struct {
	cfg Config
	// checks limits the token reviews that anonymous callers can cause: only the API server can
	// detect a forged token. claims does so for tokens that claim an account of the operator, so
	// that forged tokens cannot make the manager anonymous while its token is new. Their sum is the
	// number of concurrent reviews of a tokens.Verifier.
	checks, claims *callers.Pool

	// own caches the tokens of the operator's programs, as hashes, with their accounts: they stay
	// valid while the API server is unavailable.
	own *lru.Cache
}

const maxOwn = 256

// New returns a Door.
func New(cfg Config) *Door {
	bounds := callers.Bounds{Each: 2, Strangers: 4, Rate: 1, Burst: 16}
	cfg.LookAgain = cmp.Or(cfg.LookAgain, lookAgain)
	return &Door{
		cfg: cfg, own: lru.New(maxOwn),
		checks: callers.NewPool("checks of tokens", bounds),
		claims: callers.NewPool("checks of tokens that claim to be the operator's", bounds),
	}
}

// Who returns the caller at an address with the value of its Authorization header, "" for none.
func (d *Door) Who(ctx context.Context, address, authorization string) callers.Caller {
	who, _ := d.identify(ctx, address, authorization)
	return who
}

// identify is Who and also returns why the token of an anonymous caller was rejected; nil if it
// presented none.
func (d *Door) identify(ctx context.Context, address, authorization string) (callers.Caller, error) {
	stranger := callers.At(address)
	scheme, token, _ := strings.Cut(authorization, " ")
	if d == nil || d.cfg.Verify == nil || !strings.EqualFold(scheme, "bearer") {
		return stranger, nil
	}
	key := sha256.Sum256([]byte(token))
	last, _ := d.own.Get(key)
	known, before := last.(callers.Caller)
	who, err := d.cfg.Verify(ctx, token, func(*tokens.Claim) (leave func(), err error) {
		switch claim, ok := tokens.Claims(token); {
		case before:
			return func() {}, nil
		case ok && slices.Contains(d.cfg.Own, claim.Account()):
			return d.claims.Enter(stranger)
		}
		return d.checks.Enter(stranger)
	})
	switch {
	case errors.Is(err, tokens.ErrUnknown):
		d.own.Remove(key)
		return stranger, err
	case err != nil && before:
		return known, nil
	case err != nil:
		return stranger, err
	case slices.Contains(d.cfg.Own, who.String()):
		own := callers.Caller{Kind: callers.Ours, Name: who.String()}
		d.own.Add(key, own)
		return own, nil
	case who.PodName == "":
		return callers.Caller{Kind: callers.Pod, Name: who.String()}, nil
	}
	return callers.Caller{Kind: callers.Pod, Name: who.Namespace + "/" + who.PodName}, nil
}

// Anonymous is what strangers are answered. The zero value is Cluster.
type Anonymous int

// The values of Anonymous: the responses that anonymous callers receive.
const (
	// Cluster is everything, as the routes API is published.
	Cluster Anonymous = iota
	// Namespace is what the published API has of the namespace of their pod. Our own API
	// answers about the whole cluster, so it is not for them.
	Namespace
	// Nothing is nothing.
	Nothing
)

var anonymous = [...]string{"cluster", "namespace", "none"}

var (
	_ encoding.TextMarshaler   = Cluster
	_ encoding.TextUnmarshaler = (*Anonymous)(nil)
)

// String names it as the chart does.
func (a Anonymous) String() string { return anonymous[a] }

// MarshalText implements encoding.TextMarshaler.
func (a Anonymous) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (a *Anonymous) UnmarshalText(text []byte) error {
	is := slices.Index(anonymous[:], string(text))
	if is < 0 {
		return fmt.Errorf("%q is none of %s", text, strings.Join(anonymous[:], ", "))
	}
	*a = Anonymous(is)
	return nil
}

// lookAgain is the interval at which the namespace of a stream's caller is verified again.
const lookAgain = 15 * time.Second

// howToShow is the remedy in the error for rejected anonymous callers.
const howToShow = "send 'authorization: Bearer TOKEN' with a token of a service account that is made for the audience " +
	Audience + " (the switchyard command: --token-file)"

// ownOnly begins the errors for anonymous callers that are confined to their namespace.
const ownOnly = "without a token this route server answers about the caller's own namespace only (routeServer.anonymous: namespace); "

// refused returns the error for anonymous calls that need a token.
func refused(format string, args ...any) error {
	return status.Error(codes.Unauthenticated, fmt.Sprintf(format, args...)+": "+howToShow)
}

// anonymous admits an anonymous caller and returns the context of the call, or the reason for the
// rejection. narrowed is set for calls with responses that Narrow restricts. why is the authentication
// error of a token that was presented.
func (d *Door) anonymous(ctx context.Context, address, authorization string, why error, narrowed bool) (context.Context, error) {
	// A client that presents a token for this audience expects unrestricted responses. After the
	// token's expiry, a restricted response would look as if all other data had been deleted.
	if why != nil && (d.cfg.Anonymous == Nothing || d.cfg.Anonymous == Namespace && madeForUs(authorization)) {
		if errors.Is(why, tokens.ErrUnchecked) {
			return nil, status.Errorf(codes.Unavailable, "try again: %v", why)
		}
		return nil, refused("%v", why)
	}
	switch {
	case d.cfg.Anonymous == Cluster:
		return ctx, nil
	case d.cfg.Anonymous == Nothing:
		return nil, refused("this route server rejects calls without a token (routeServer.anonymous: none): present a service-account token")
	case !narrowed:
		return nil, refused(ownOnly + "this call is about the whole cluster")
	}
	s, err := d.place(ctx, address)
	if err != nil {
		return nil, err
	}
	return context.WithValue(ctx, scopeKey{}, s), nil
}

// madeForUs reports whether a token, valid or not, claims the audience of the route server.
func madeForUs(authorization string) bool {
	_, token, _ := strings.Cut(authorization, " ")
	claim, ok := tokens.Claims(token)
	return ok && slices.Contains(claim.Audience, Audience)
}

type scopeKey struct{}

// scope restricts an anonymous caller to one namespace, as long as its pod has the address.
type scope struct {
	namespace string
	address   netip.Addr
}

// place returns the namespace of the caller at an address, or an error that rejects the caller.
func (d *Door) place(ctx context.Context, address string) (scope, error) {
	from, err := netip.ParseAddrPort(address)
	if err != nil || d.cfg.Namespace == nil {
		return scope{}, refused(ownOnly + "the namespace of this address is unknown")
	}
	s := scope{address: from.Addr()}
	s.namespace, err = d.cfg.Namespace(ctx, s.address)
	if none := (*podaddr.None)(nil); errors.As(err, &none) {
		return scope{}, refused(ownOnly+"the caller's namespace is unknown, because %v", none)
	}
	if err != nil {
		return scope{}, status.Errorf(codes.Unavailable, "try again: %v", err)
	}
	if s.namespace == "" {
		return scope{}, refused(ownOnly + "the namespace of this address is unknown")
	}
	return s, nil
}

// held returns a context that is cancelled when the caller of a stream is found to be no longer in
// its namespace: its address now belongs to another pod, or did so from the beginning and the
// cached pod was stale. The cause is the error for the caller. While this cannot be determined, the
// stream continues: its connection is still the same.
func (d *Door) held(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, end := context.WithCancelCause(ctx)
	s, ok := ctx.Value(scopeKey{}).(scope)
	if !ok {
		return ctx, end
	}
	go func() {
		again := time.NewTicker(d.cfg.LookAgain)
		defer again.Stop()
		for {
			select {
			case <-again.C:
			case <-ctx.Done():
				return
			}
			namespace, err := d.cfg.Namespace(ctx, s.address)
			switch none := (*podaddr.None)(nil); {
			case errors.As(err, &none):
				end(refused(ownOnly+"the caller's namespace is no longer known, because %v", none))
			case err == nil && namespace != s.namespace:
				end(status.Errorf(codes.Unavailable, "the pod at %s is in another namespace than when this began: begin again", s.address))
			}
		}
	}()
	return ctx, end
}

// Scope returns the namespace that an answer is narrowed to, and false when the caller may
// have it whole.
func Scope(ctx context.Context) (namespace string, narrowed bool) {
	s, ok := ctx.Value(scopeKey{}).(scope)
	return s.namespace, ok
}

// Narrow returns a filter restricted to the namespace of the caller. A request for another
// namespace is rejected: an empty response would look as if there were no rules.
func Narrow(ctx context.Context, f published.Filter) (published.Filter, error) {
	namespace, narrowed := Scope(ctx)
	if !narrowed {
		return f, nil
	}
	if f.Namespace != "" && f.Namespace != namespace {
		return f, refused(ownOnly+"that is %s, and this call asks about %s", namespace, f.Namespace)
	}
	f.Namespace = namespace
	return f, nil
}
