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
	"context"
	"crypto/sha256"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"time"

	"k8s.io/utils/lru"

	"switchyard.dev/eventbus/callers"
	"switchyard.dev/eventbus/callers/tokens"
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
	if cfg.LookAgain == 0 {
		cfg.LookAgain = lookAgain
	}
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
