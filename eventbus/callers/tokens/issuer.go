package tokens

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// Signature is the result of checking a token without asking the API server about it.
type Signature int

// The results of Check.
const (
	// Foreign tokens claim no issuer or another one, or it cannot be found out which issuer and
	// keys the API server has. Only the API server knows whether they are valid.
	Foreign Signature = iota
	// Forged tokens claim the API server's issuer, and none of its published keys has signed
	// them.
	Forged
	// Signed tokens have been signed by the API server. They may have expired, or be of an
	// account that was deleted.
	Signed
)

// Issuer separates the tokens of an API server from others, by its discovery document
// and keys. It is safe for concurrent use.
type Issuer struct {
	discover func(ctx context.Context) ([]byte, error)
	keys     keys
	clock    func() time.Time

	// reading is held while the document is read.
	reading sync.Mutex
	looked  time.Time

	mu   sync.Mutex
	name string
}

// NewIssuer returns the Issuer of an API server. clock may be nil.
//
// It needs the right to read /.well-known/openid-configuration and /openid/v1/jwks, which
// clusters give every service account by the ClusterRole system:service-account-issuer-discovery.
// Without it all tokens are Foreign.
func NewIssuer(client rest.Interface, clock func() time.Time) *Issuer {
	if clock == nil {
		clock = time.Now
	}
	discover := func(ctx context.Context) ([]byte, error) {
		return client.Get().AbsPath("/.well-known/openid-configuration").DoRaw(ctx)
	}
	return &Issuer{discover: discover, clock: clock, keys: keys{read: PublishedKeys(client), clock: clock}}
}

// Check checks a token, and returns its claims, which can be trusted for Signed ones alone.
func (i *Issuer) Check(ctx context.Context, token string) (Claim, Signature) {
	claim, jwt := Claims(token)
	if !jwt || claim.Issuer == "" || claim.Issuer != i.issuer(ctx) {
		return claim, Foreign
	}
	return claim, i.keys.check(ctx, token)
}

// issuer returns the name of the issuer; empty where it cannot be read.
func (i *Issuer) issuer(ctx context.Context) string {
	if name := i.known(); name != "" {
		return name
	}
	i.reading.Lock()
	defer i.reading.Unlock()
	if now := i.clock(); i.known() == "" && (i.looked.IsZero() || now.Sub(i.looked) >= keysAgain) {
		i.refresh(ctx)
		i.looked = now
	}
	return i.known()
}

func (i *Issuer) known() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.name
}

// refresh reads the discovery document. i.reading is held.
func (i *Issuer) refresh(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keysWithin)
	defer cancel()
	var document struct {
		Issuer string `json:"issuer"`
	}
	text, err := i.discover(ctx)
	if err == nil {
		err = json.Unmarshal(text, &document)
	}
	if err == nil && document.Issuer == "" {
		err = errors.New("the document names no issuer")
	}
	if err != nil {
		slog.Warn("cannot read the issuer of the API server's tokens; forged tokens are reviewed by the API server with all unknown ones",
			"path", "/.well-known/openid-configuration", "error", err, "remedy", "bind ClusterRole system:service-account-issuer-discovery to this service account")
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.name = cmp.Or(document.Issuer, i.name)
}
