// Package access authenticates workstations and checks their rights, by TokenReview and
// SubjectAccessReview requests to the API server.
//
// Authentication uses TokenReview. A token counts when it was issued for the audience of the
// tunnel proxies (Audience) or for the API server itself; tokens for any other audience are
// refused. Users and groups with the prefix of a control plane's users are refused too: only a
// credential that the control plane has signed, which is checked without the API server, may name
// them.
//
// A token that claims the API server's issuer and that none of its published keys has signed is
// refused without a review. A signed token, and one that was accepted in the last hour, is
// reviewed within the bounds of its user. All others (of OIDC issuers, webhooks and plugins) are
// reviewed in one pool, in the order in which they come, and at a bounded rate.
//
// Authorization uses SubjectAccessReview. MayUpdate requires the right to update the sandbox that
// the workstation takes requests of. MayUse requires the right to list sandboxes, because being
// known to the API server is not enough to get connections into the cluster: on some clouds
// everyone with an account is known to it.
//
// Answers are cached for a short time, in a cache of bounded size, and every answer that did not
// come from the cache is logged. While the API server is unavailable, a question without a cached
// answer is refused with REASON_UNAVAILABLE, except that rights granted in the last minutes
// (keepLast) stay valid, so that tunnels continue.
package access

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	authentication "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorization "k8s.io/client-go/kubernetes/typed/authorization/v1"
	core "k8s.io/client-go/kubernetes/typed/core/v1"

	"switchyard.dev/eventbus/callers"
	"switchyard.dev/eventbus/callers/tokens"
	crdv1 "switchyard.dev/protos/crd/v1"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tunnels/controlkeys"
	"switchyard.dev/tunnels/credential/signed"
	"switchyard.dev/tunnels/identity"
)

// Audience is the audience of tokens for tunnel proxies and for tunnel-api.
const Audience = "tunnel-proxy"

const (
	// keepUser is the lifetime of cached TokenReviews; keepYes and keepNo are those of cached
	// SubjectAccessReviews that allowed and that denied.
	keepUser, keepYes, keepNo = 60 * time.Second, 10 * time.Second, 2 * time.Second
	// keepAccepted is how long an accepted token is remembered.
	keepAccepted = time.Hour
	// keepLast is for how long a right that was granted stays valid while the API server is
	// unavailable.
	keepLast = 10 * time.Minute
	// maxKept bounds the cached answers of each kind.
	maxKept = 4096
	// askWithin bounds one request to the API server.
	askWithin = 4 * time.Second
	// maxToken bounds a token, in bytes.
	maxToken = 16 << 10
)

// sandboxes is the resource of the checked rights.
const sandboxes = "signadotsandboxes"

// Config configures an Access.
type Config struct {
	// Tokens and Rights are the APIs. Required.
	Tokens authentication.TokenReviewInterface
	Rights authorization.SubjectAccessReviewInterface
	// Issuer recognizes the tokens of the API server. Default: every token is unknown.
	Issuer *tokens.Issuer
	// Forwards reports which addresses, beside those of loopback, are of proxies, and so of no
	// caller. Default: none.
	Forwards callers.Forwards
	// Credentials checks credentials of a control plane. Default: all are refused.
	Credentials *controlkeys.Reader
	// Accounts reads service accounts, for Exists. Default: every account counts as existing.
	Accounts core.ServiceAccountsGetter
	// Clock returns the current time. Default: time.Now.
	Clock func() time.Time
	// Logger logs each answer. Default: none.
	Logger *slog.Logger
}

// Access authenticates and authorizes. It is safe for concurrent use.
type Access struct {
	cfg     Config
	users   *kept
	reviews *Reviews
	// existing has the answers about service accounts.
	existing *cache.LRUExpireCache
	// last has the rights that were granted last, for when the API server is unavailable.
	last *cache.LRUExpireCache
	// accepted has the users of accepted tokens of other issuers.
	accepted *kept
	checks   pools
}

// clock is a cache.Clock.
type clock func() time.Time

// Now implements cache.Clock.
func (c clock) Now() time.Time { return c() }

// New returns an Access.
func New(cfg Config) (*Access, error) {
	if cfg.Tokens == nil || cfg.Rights == nil {
		return nil, errors.New("access: Tokens and Rights are both needed")
	}
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	now := clock(cfg.Clock)
	return &Access{cfg: cfg, users: newKept(now), reviews: NewReviews(cfg.Rights, cfg.Clock), existing: cache.NewLRUExpireCacheWithClock(maxKept, now),
		last: cache.NewLRUExpireCacheWithClock(maxKept, now), accepted: newKept(now), checks: newPools()}, nil
}

// Identify returns the user that a token belongs to. from is the address of the client, as
// host:port.
func (a *Access) Identify(ctx context.Context, token, from string) (identity.User, *tunnelv1.Refused) {
	return a.identify(ctx, token, from, "")
}

// Reidentify returns the user of a token that the same user has presented before from that address. It
// does not count against other clients of the address.
func (a *Access) Reidentify(ctx context.Context, token, from string, user identity.User) (identity.User, *tunnelv1.Refused) {
	return a.identify(ctx, token, from, user.Name)
}

// identify returns the user of a token. known is the user that presented it before; empty: none.
func (a *Access) identify(ctx context.Context, token, from, known string) (identity.User, *tunnelv1.Refused) {
	if token == "" {
		return identity.User{}, unauthenticated("there is no token: log in to the cluster")
	}
	claims, jwt := tokens.Claims(token)
	if len(token) > maxToken {
		return identity.User{}, unauthenticated("the token is longer than %d bytes", maxToken)
	}
	now := a.cfg.Clock()
	if jwt && claims.Issuer == signed.Issuer {
		if now.After(time.Unix(claims.Expiry, 0)) { // also while the keys cannot be read
			return identity.User{}, unauthenticated("the credential of the control plane expired at %s: request a new one", time.Unix(claims.Expiry, 0).UTC().Format(time.RFC3339))
		}
		return a.credential(ctx, token, from)
	}
	if jwt && claims.Expiry != 0 && now.After(time.Unix(claims.Expiry, 0)) {
		return identity.User{}, unauthenticated("the token expired at %s: log in to the cluster again", time.Unix(claims.Expiry, 0).UTC().Format(time.RFC3339))
	}
	key := sha256.Sum256([]byte(token))
	if kept, is := a.users.Get(key); is {
		return kept.(identity.User), nil
	}
	leave, foreign, refused := a.admit(ctx, token, key, from, known)
	if refused != nil {
		return identity.User{}, refused
	}
	defer leave()
	user, refused := a.review(ctx, token, jwt && slices.Contains(claims.Audience, Audience))
	if refused != nil {
		if refused.Reason == tunnelv1.Reason_REASON_UNAUTHENTICATED {
			a.accepted.Remove(key)
		}
		a.cfg.Logger.Info("a token was refused", "from", from, "reason", refused.Reason.String(), "message", refused.Message)
		return identity.User{}, refused
	}
	keep := keepUser
	if jwt && claims.Expiry != 0 {
		keep = min(keep, time.Unix(claims.Expiry, 0).Sub(now))
	}
	a.users.add(user.Name, key, user, keep)
	if foreign {
		a.accepted.add(user.Name, key, user.Name, keepAccepted)
	}
	a.cfg.Logger.Info("a token was accepted", "from", from, "user", user.Name)
	return user, nil
}

// admit reserves a review of a token, until leave is called, or returns why not. foreign reports
// that only a review can verify the token.
func (a *Access) admit(ctx context.Context, token string, key [sha256.Size]byte, from, known string) (leave func(), foreign bool, refused *tunnelv1.Refused) {
	user, foreign := a.accepted.Get(key)
	if foreign && known == "" {
		known = user.(string)
	}
	if known == "" {
		claims, is := tokens.Claim{}, tokens.Foreign
		if a.cfg.Issuer != nil {
			claims, is = a.cfg.Issuer.Check(ctx, token)
		}
		switch is {
		case tokens.Foreign:
			foreign = true
		case tokens.Forged:
			a.cfg.Logger.Debug("a token was refused without a review", "from", from, "claims", fmt.Sprintf("%.253q", claims.Subject))
			return nil, false, unauthenticated("the token claims to be of this cluster, and no key of the cluster has signed it: log in to the cluster again")
		case tokens.Signed:
			known = claims.Subject
		}
	}
	var err error
	if known != "" {
		leave, err = a.checks.known(known)
	} else {
		leave, err = a.checks.stranger(ctx, callers.Behind(from, a.cfg.Forwards))
	}
	if err != nil {
		return nil, false, &tunnelv1.Refused{Reason: tunnelv1.Reason_REASON_EXHAUSTED, Message: sentence(err.Error())}
	}
	return leave, foreign, nil
}

// review asks the API server for the user of a token: one issued for Audience if own is set,
// otherwise one issued for the API server itself.
func (a *Access) review(ctx context.Context, token string, own bool) (identity.User, *tunnelv1.Refused) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	spec := authenticationv1.TokenReviewSpec{Token: token}
	if own {
		spec.Audiences = []string{Audience}
	}
	review, err := a.cfg.Tokens.Create(ctx, &authenticationv1.TokenReview{Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		return identity.User{}, a.unavailable("to review a token", err)
	}
	status := review.Status
	switch {
	case !status.Authenticated && status.Error != "":
		return identity.User{}, unauthenticated("the API server does not accept the token (%.200s): log in to the cluster again", status.Error)
	case !status.Authenticated:
		return identity.User{}, unauthenticated("the API server does not accept the token: log in to the cluster again")
	// An authenticator that knows no audiences leaves the field empty.
	case own && !slices.Contains(status.Audiences, Audience):
		return identity.User{}, unauthenticated("the token is not for the audience %s", Audience)
	case status.User.Username == "":
		return identity.User{}, unauthenticated("the API server knows no name for the token's user")
	}
	if name := crdv1.ControlPlaneName(status.User.Username, status.User.Groups); name != "" {
		return identity.User{}, unauthenticated("the API server authenticates the token as %.253q, and names that begin with %q are reserved for users of a control plane: configure another prefix in the API server's authenticator", name, crdv1.ControlPlanePrefix)
	}
	user := identity.User{Name: status.User.Username, UID: status.User.UID, Groups: status.User.Groups}
	for k, v := range status.User.Extra {
		if user.Extra == nil {
			user.Extra = map[string][]string{}
		}
		user.Extra[k] = v
	}
	return user, nil
}

// MayUse returns nil when a user may use tunnel proxies at all, or why not.
func (a *Access) MayUse(ctx context.Context, user identity.User) *tunnelv1.Refused {
	return a.may(ctx, user, "list", "")
}

// MayUpdate returns nil when a user may redirect requests of a sandbox to their workstation, that
// is, when the user may update the sandbox.
func (a *Access) MayUpdate(ctx context.Context, user identity.User, sandbox string) *tunnelv1.Refused {
	return a.may(ctx, user, "update", sandbox)
}

// may checks a right to SignadotSandboxes, or to one of them.
func (a *Access) may(ctx context.Context, user identity.User, verb, name string) *tunnelv1.Refused {
	if user.Name == "" {
		return unauthenticated("the user is unknown")
	}
	right := authorizationv1.ResourceAttributes{Verb: verb, Group: crdv1.Group, Resource: sandboxes, Name: name}
	key := question{user.Key(), right}
	allowed, asked, err := a.reviews.Allowed(ctx, user, right)
	if err != nil {
		refused := a.unavailable("for a right of "+user.Name, err)
		if _, had := a.last.Get(key); had {
			return nil
		}
		return refused
	}
	what := verb + " " + sandboxes + "." + crdv1.Group
	if name != "" {
		what += " " + name
	}
	if asked {
		a.cfg.Logger.Info("a right was asked for", "user", user.Name, "right", what, "allowed", allowed)
		if a.last.Remove(key); allowed {
			a.last.Add(key, struct{}{}, keepLast)
		}
	}
	if allowed {
		return nil
	}
	return &tunnelv1.Refused{Reason: tunnelv1.Reason_REASON_FORBIDDEN, Message: fmt.Sprintf("%.253s may not %s: ask an administrator of the cluster for that right.", user.Name, what)}
}

// unavailable logs err and returns the refusal for an unavailable API server. what completes the
// log line.
func (a *Access) unavailable(what string, err error) *tunnelv1.Refused {
	a.cfg.Logger.Warn("the API server could not be asked "+what, "error", err)
	return &tunnelv1.Refused{Reason: tunnelv1.Reason_REASON_UNAVAILABLE, Message: "The API server of the cluster could not be asked: try again."}
}

func unauthenticated(format string, args ...any) *tunnelv1.Refused {
	return &tunnelv1.Refused{Reason: tunnelv1.Reason_REASON_UNAUTHENTICATED, Message: sentence(fmt.Sprintf(format, args...))}
}

// sentence returns a text as a sentence.
func sentence(text string) string { return strings.ToUpper(text[:1]) + text[1:] + "." }
