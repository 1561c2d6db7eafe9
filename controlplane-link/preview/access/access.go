package access

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store/seal"
	"switchyard.dev/controlplane-link/credentials"
	"switchyard.dev/eventbus/callers"
)

// Prefix is that of the paths of a preview's host that this package answers.
const Prefix = "/.switchyard/"

const sessionPath, failedPath = Prefix + "session", Prefix + "failed"

// Site is a preview: one host below the preview domain of an organisation. Both names are in lower case, without a
// port and a final dot.
type Site struct{ Organisation, Domain, Host string }

// Sites returns the preview that a host is of, which may have a port; false: it is below no preview domain.
type Sites func(host string) (Site, bool)

// Visitor is the sender of a request.
type Visitor struct {
	// User is empty for a preflight, which has no credential; an answer to it is no refusal.
	User      string
	Preflight bool
	// Guesses reports that the credential is not known, or that the address sends too many requests: the answer is to
	// wait for a while.
	Guesses bool
	// WhileValid returns once the credential is no longer valid, or ctx has ended. It reads nothing in the first second.
	WhileValid func(ctx context.Context)
}

// Keys authenticates users. It is safe for concurrent use.
type Keys interface {
	// FindDigest returns the API key or session with a digest; nil: it is not known. from is the address of a request
	// with it, which is recorded as its last use; empty: there is none.
	FindDigest(ctx context.Context, d model.Digest, from string) (*credentials.Key, error)
	// Changes counts changes of API keys and sessions.
	Changes() uint64
	// WhileValid returns once a key is not one of the same user any more, or ctx has ended.
	WhileValid(ctx context.Context, k *credentials.Key, cluster string)
}

// Config configures an Access.
type Config struct {
	// Keys, Seal, Now and Logger are required. Seal encrypts cookies and codes; it is the same at all replicas.
	Keys   Keys
	Seal   *seal.Keys
	Now    func() time.Time
	Logger *slog.Logger
	// Page is the origin of the page of logins, such as https://control.example.com. Empty: there are no logins.
	Page string
	// Embedded lets other sites embed previews: cookies are sent there (None; Partitioned).
	Embedded bool
	// Logins are needed for Embedded only.
	Logins Logins
	// AnswersPreflights answers preflights instead of forwarding them.
	AnswersPreflights bool
	// ServiceWorkers lets previews have service workers. They see all URLs of their host, also those with a Code.
	ServiceWorkers bool
	// Forwards reports the addresses of proxies: their clients have no share of their own in the limits.
	Forwards callers.Forwards
}

// Limits of one address. Checks are of API keys and tokens, and of logins of embedded previews, and apart of sessions;
// one that finds nothing valid counts for unknownFor. All addresses together have at most preflightsOfAll preflights.
const (
	checksAtOnce, sessionsAtOnce, unknownFor                = 128, 256, time.Second
	preflightsAtOnce, preflightsPerSecond, preflightsInARow = 64, 20, 200
	preflightsOfAll                                         = 1024
)

// Access authorizes requests. Make one with New.
type Access struct {
	Config
	checks, sessions, preflights *callers.Pool
	mu                           sync.Mutex
	found                        map[model.Digest]found
}

// New returns an Access.
func New(c Config) *Access {
	return &Access{
		Config: c, found: map[model.Digest]found{},
		checks:     callers.NewPool("checks", callers.Bounds{Each: checksAtOnce, Strangers: callers.AnyNumber}),
		sessions:   callers.NewPool("checks", callers.Bounds{Each: sessionsAtOnce, Strangers: callers.AnyNumber}),
		preflights: callers.NewPool("preflights", callers.Bounds{Each: preflightsAtOnce, Strangers: preflightsOfAll, Rate: preflightsPerSecond, Burst: preflightsInARow}),
	}
}

// Decide returns the sender of a request and removes our credentials from it, or, if the request is not to be
// forwarded, its answer. The request is changed in both cases.
func (a *Access) Decide(r *http.Request, s Site) (Visitor, http.Handler) {
	c := take(r, s)
	switch {
	case r.Header.Get("Service-Worker") != "" && !a.ServiceWorkers:
		return Visitor{}, reply(http.StatusForbidden, "No service workers", "Previews have no service workers, which could read codes of logins. An administrator can allow them with previews.serviceWorkers.")
	case strings.HasPrefix(r.URL.Path, Prefix):
		return Visitor{}, a.own(r, s, c)
	case isPreflight(r):
		return a.preflight(r, s)
	}
	key, no := a.authenticate(r, s, c)
	if key == nil {
		return Visitor{Guesses: no == error(errMany) || errors.Is(no, errNone) && c.key+c.bearer != ""}, a.refused(r, s, c, no)
	}
	return Visitor{User: key.User, WhileValid: func(ctx context.Context) { a.Keys.WhileValid(ctx, key, "") }}, nil
}
