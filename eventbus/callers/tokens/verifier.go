// Package tokens identifies a caller by the projected service-account token that a pod
// presents.
//
// The API server is asked (TokenReview) with the audience that the token must be for, so that a
// token made for any other audience, an expired one, or one of a deleted pod does not count. A
// token that does not even claim that audience is refused without a review, so junk costs
// neither this program nor the API server anything. A positive answer is cached for a short
// while, since an identity does not change; a negative one is not, since the next token may be
// valid. While the API server is unavailable only tokens with a cached answer are accepted.
//
// Callers provide an audience of their own, so that a token for one service is of no use at
// another, and decide what the identity is allowed to do.
package tokens

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	client "k8s.io/client-go/kubernetes/typed/authentication/v1"
)

// Errors of Verify; test with errors.Is.
var (
	// ErrUnknown: the token does not identify the caller. Refuse the caller.
	ErrUnknown = errors.New("the token is not valid here")
	// ErrUnchecked: the API server could not be asked. Refuse the caller for now;
	// it may come again.
	ErrUnchecked = errors.New("the token could not be checked")
)

// Identity is the caller that a token belongs to.
type Identity struct {
	Namespace, ServiceAccount string
	// PodName and PodUID name the pod that the token was made for; empty when it
	// was made for none.
	PodName, PodUID string
}

// String returns the service account as namespace/name.
func (i Identity) String() string { return i.Namespace + "/" + i.ServiceAccount }

// Config configures a Verifier.
type Config struct {
	// Reviews is the TokenReview API.
	Reviews client.TokenReviewInterface
	// Audience is what the tokens must be made for.
	Audience string
	// Keys reads the keys with which the API server signs tokens. With them, a token without
	// its signature is refused without a review; signed tokens are still reviewed. Nil: every
	// token that has the right form is reviewed.
	Keys ReadKeys
	// Clock returns the current time; time.Now when it is nil.
	Clock func() time.Time
}

const (
	// MaxCache is how long a positive answer is kept. A token is never believed past its
	// own expiry.
	MaxCache = 60 * time.Second
	// maxKept bounds the answers that are kept.
	maxKept = 4096
	// maxAsking bounds the questions that are under way at once, so that strangers cannot
	// make us flood the API server.
	maxAsking = 8
	// reviewTimeout bounds one question.
	reviewTimeout = 4 * time.Second
)

// Validate returns an error if the configuration is not valid.
func (c Config) Validate() error {
	switch {
	case c.Reviews == nil:
		return errors.New("tokens: Reviews is missing")
	case c.Audience == "":
		return errors.New("tokens: Audience is missing; without one a token for any service would count")
	}
	return nil
}

// Verifier verifies tokens. It is safe for concurrent use.
type Verifier struct {
	config Config
	asking chan struct{}
	keys   *keys // nil without Config.Keys
	// kept has the Identity of tokens by their hash, which is all that is kept of them.
	kept *cache.LRUExpireCache
}

// clock is a cache.Clock.
type clock func() time.Time

// Now implements cache.Clock.
func (c clock) Now() time.Time { return c() }

// New returns a verifier.
func New(c Config) (*Verifier, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	v := &Verifier{config: c, asking: make(chan struct{}, maxAsking), kept: cache.NewLRUExpireCacheWithClock(maxKept, clock(c.Clock))}
	if c.Keys != nil {
		v.keys = &keys{read: c.Keys, clock: c.Clock}
	}
	return v, nil
}

// Admit lets a question to the API server through, until leave is called, or returns why not.
// signed are the claims of the token if it is known that the API server has signed it: the
// question can be charged to that pod instead of the sender. Nil: that is not known.
type Admit func(signed *Claim) (leave func(), err error)

// Verify returns the identity that a token belongs to. The error is ErrUnknown for a token that
// is not valid, ErrUnchecked when it could not be checked.
func (v *Verifier) Verify(ctx context.Context, token string) (Identity, error) {
	return v.VerifyAdmitted(ctx, token, func(*Claim) (func(), error) { return func() {}, nil })
}

// VerifyAdmitted is Verify with a limit on the questions to the API server. admit is not called
// if the answer is known without a question. The error is ErrUnchecked if admit refuses.
func (v *Verifier) VerifyAdmitted(ctx context.Context, token string, admit Admit) (Identity, error) {
	if token == "" {
		return Identity{}, fmt.Errorf("%w: there is none", ErrUnknown)
	}
	if len(token) > maxToken {
		return Identity{}, fmt.Errorf("%w: it is longer than %d bytes", ErrUnknown, maxToken)
	}
	// Junk is refused without a question.
	if !MadeFor(token, v.config.Audience, v.config.Clock()) {
		return Identity{}, fmt.Errorf("%w: it is not an unexpired service-account token for %q", ErrUnknown, v.config.Audience)
	}
	key := sha256.Sum256([]byte(token))
	if kept, ok := v.kept.Get(key); ok {
		return kept.(Identity), nil
	}
	signed, err := v.signed(ctx, token)
	if err != nil {
		return Identity{}, err
	}
	leave, err := admit(signed)
	if err != nil {
		return Identity{}, fmt.Errorf("%w: %w", ErrUnchecked, err)
	}
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	select {
	case v.asking <- struct{}{}:
		defer func() { <-v.asking }()
	case <-ctx.Done():
		return Identity{}, fmt.Errorf("%w: too many others are being checked", ErrUnchecked)
	}
	identity, err := v.ask(ctx, token)
	if err == nil {
		v.kept.Add(key, identity, v.keepFor(token))
	}
	return identity, err
}

// signed returns the claims of a token that is known to be signed by the API server, nil where
// that is not known. The error is ErrUnknown if the signature is not the API server's.
func (v *Verifier) signed(ctx context.Context, token string) (*Claim, error) {
	if v.keys == nil {
		return nil, nil
	}
	switch v.keys.check(ctx, token) {
	case Forged:
		return nil, fmt.Errorf("%w: it is not signed by the API server", ErrUnknown)
	case Signed:
		if claim, ok := Claims(token); ok {
			return &claim, nil
		}
	}
	return nil, nil
}

// keepFor returns for how long the answer about a token is kept. The API server has
// verified the token, so its claims can be believed.
func (v *Verifier) keepFor(token string) time.Duration {
	claims, ok := Claims(token)
	if !ok || claims.Expiry == 0 {
		return MaxCache
	}
	return min(MaxCache, time.Unix(claims.Expiry, 0).Sub(v.config.Clock()))
}

func (v *Verifier) ask(ctx context.Context, token string) (Identity, error) {
	review, err := v.config.Reviews.Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: []string{v.config.Audience}},
	}, metav1.CreateOptions{})
	if err != nil {
		return Identity{}, fmt.Errorf("%w: %w", ErrUnchecked, err)
	}
	status := review.Status
	if !status.Authenticated {
		return Identity{}, fmt.Errorf("%w: %s", ErrUnknown, strings.TrimSpace("the API server does not accept it: "+status.Error))
	}
	// An authenticator that knows no audiences leaves the field empty; its yes
	// means that the token is good for something else.
	if !slices.Contains(status.Audiences, v.config.Audience) {
		return Identity{}, fmt.Errorf("%w: it is for %q, not for %q", ErrUnknown, status.Audiences, v.config.Audience)
	}
	return identityOf(status.User)
}

// The names that the API server uses for a service account.
const (
	userPrefix = "system:serviceaccount:"
	extraPod   = "authentication.kubernetes.io/pod-name"
	extraUID   = "authentication.kubernetes.io/pod-uid"
)

func identityOf(user authenticationv1.UserInfo) (Identity, error) {
	name, ok := strings.CutPrefix(user.Username, userPrefix)
	namespace, account, parts := strings.Cut(name, ":")
	if !ok || !parts || namespace == "" || account == "" {
		return Identity{}, fmt.Errorf("%w: %q is not a service account", ErrUnknown, user.Username)
	}
	return Identity{
		Namespace: namespace, ServiceAccount: account,
		PodName: only(user.Extra[extraPod]), PodUID: only(user.Extra[extraUID]),
	}, nil
}

// only returns the one value there is; several would not name one pod.
func only(values authenticationv1.ExtraValue) string {
	if len(values) != 1 {
		return ""
	}
	return values[0]
}

// maxToken bounds a token, in bytes; real ones take about 1,200.
const maxToken = 16 << 10

// leeway is by how much the API server's clock can be behind this one.
const leeway = 5 * time.Minute

// MadeFor reports whether a token claims to be for an audience and has not expired. It does not
// verify the claims: only the API server can. A token that claims otherwise need not be sent to
// it; the check takes some microseconds.
func MadeFor(token, audience string, now time.Time) bool {
	c, ok := Claims(token)
	return ok && slices.Contains(c.Audience, audience) && (c.Expiry == 0 || now.Before(time.Unix(c.Expiry, 0).Add(leeway)))
}

// Claim is what a token states about itself, unverified.
type Claim struct {
	// Audience is the token's aud; Expiry its exp, in seconds since 1970, 0 without one.
	Audience Audience `json:"aud"`
	Expiry   int64    `json:"exp"`
	// Issuer is the token's iss, Subject its sub, the user name.
	Issuer  string `json:"iss"`
	Subject string `json:"sub"`
	// Bound is to what Kubernetes has bound it.
	Bound struct {
		Pod struct {
			UID string `json:"uid"`
		} `json:"pod"`
	} `json:"kubernetes.io"`
}

// Account returns the service account, as namespace/name; "" when it is none's.
func (c Claim) Account() string {
	name, ok := strings.CutPrefix(c.Subject, userPrefix)
	if !ok {
		return ""
	}
	return strings.Replace(name, ":", "/", 1)
}

// Audience is one name, or several.
type Audience []string

// UnmarshalJSON implements json.Unmarshaler: one name may stand without a list.
func (a *Audience) UnmarshalJSON(text []byte) error {
	if len(text) > 0 && text[0] == '"' {
		*a = make(Audience, 1)
		return json.Unmarshal(text, &(*a)[0])
	}
	return json.Unmarshal(text, (*[]string)(a))
}

// Claims decodes the claims of a token (a JWT), unverified; false when it is not one.
func Claims(token string) (Claim, bool) {
	var c Claim
	if len(token) > maxToken || strings.Count(token, ".") != 2 {
		return c, false
	}
	text, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	if err != nil || json.Unmarshal(text, &c) != nil {
		return Claim{}, false
	}
	return c, true
}
