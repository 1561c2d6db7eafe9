// Package connect reaches the event bus from another pod: the operator's own server with a
// projected service-account token, or any NATS with credentials or a client certificate, and
// TLS.
//
// A connection never gives up: Dial returns at once, even if no server answers yet, and the
// connection is established and re-established in the background. The token file is read for
// each attempt, since the kubelet replaces it before it expires. Publishing while the
// connection is down fails at once instead of being buffered: callers know better whether the
// message is still valid.
package connect

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"switchyard.dev/eventbus/jetstream"
	"switchyard.dev/eventbus/trust"
)

// Role is what a client of the operator's own server is allowed to do.
type Role int

// The roles.
const (
	// Follower reads the log.
	Follower Role = iota + 1
	// Writer begins, ends, writes and reads the log.
	Writer
	// Recorder adds to the records of connections, and does nothing else.
	Recorder
	// Auditor reads the records of connections, and does nothing else.
	Auditor
)

// InboxPrefix is the prefix of subjects for answers to clients of the role. The operator's
// server lets a client subscribe nowhere else, so that a follower cannot read a writer's
// answers; the documentation asks operators of other servers to do the same.
func (r Role) InboxPrefix() string {
	switch r {
	case Writer:
		return "_INBOX.writer"
	case Recorder:
		return "_INBOX.recorder"
	case Auditor:
		return "_INBOX.auditor"
	}
	return "_INBOX.follower"
}

// The records of connections that pass tunnel proxies: their stream, the subject that a Recorder
// publishes each of them to, and where our server takes the calls of an Auditor, which are
// STREAM.INFO and STREAM.MSG.GET.
const (
	RecordsStream  = "CONNECTIONS"
	RecordsSubject = "tunnel.connections"
	AuditorAPI     = "RECORDS.API"
)

// FollowerAPI is where our server takes the calls of followers: they are in an
// account of their own, apart from the log.
const FollowerAPI = "FACTS.API"

// Config is the address of the bus and the identity of the client.
type Config struct {
	// URL of the bus, like nats://eventbus.signadot.svc:4222; several of
	// a cluster are separated by commas.
	URL string
	// Role is what the client wants to do, and what the server must grant.
	Role Role
	// Name identifies this client in the server's log, like the pod name.
	Name string
	// TokenFile holds the token for the operator's own server. Without one the bus is an
	// external one.
	TokenFile string
	// CredentialsFile holds NATS credentials, for an external bus.
	CredentialsFile string
	// CAFile holds the certificate authority of a server that speaks TLS; empty
	// for the system's. With it, with a client certificate, or with a URL that
	// begins with tls://, the client talks TLS or not at all.
	CAFile string
	// CertFile and KeyFile hold the certificate that the client shows and its key,
	// for a bus that asks for one. They are read again for each attempt to
	// connect, so a certificate that is renewed is taken up.
	CertFile, KeyFile string
	// Roots are the authorities that the operator's own server is verified against: with them
	// the client uses TLS or does not connect. For an external server there is CAFile.
	Roots *trust.Roots
	// APIPrefix is where the server takes JetStream's calls, when it is not where our own
	// server or a plain NATS does: an account may import them under another name.
	APIPrefix string
	// Logger takes what happens to the connection; slog.Default() when nil.
	Logger *slog.Logger
}

// The waits of a connection.
const (
	connectTimeout = 7 * time.Second // our server takes up to 5 s to check a token
	pingInterval   = 2 * time.Second
	pingsOut       = 2
	firstDelay     = 100 * time.Millisecond
	longestDelay   = 2 * time.Second
)

// Validate returns an error if the configuration is not valid.
func (c Config) Validate() error {
	if c.URL == "" {
		return errors.New("event bus client: URL is missing")
	}
	for _, one := range strings.Split(c.URL, ",") {
		if u, err := url.Parse(strings.TrimSpace(one)); err != nil || u.Host == "" {
			return fmt.Errorf("event bus client: URL %q is not like nats://host:4222", one)
		}
	}
	if c.Role < Follower || c.Role > Auditor {
		return fmt.Errorf("event bus client: Role is %d; it is Follower, Writer, Recorder or Auditor", c.Role)
	}
	if c.TokenFile != "" && c.CredentialsFile != "" {
		return errors.New("event bus client: TokenFile and CredentialsFile are both set; a client has one identity")
	}
	if c.Roots != nil && strings.Contains(c.URL, ",") {
		return fmt.Errorf("event bus client: Roots are for the operator's own bus, which has one server, and URL %q has several", c.URL)
	}
	if c.Roots != nil && c.CAFile != "" {
		return errors.New("event bus client: Roots and CAFile are both set; a bus is either the operator's own or an external one")
	}
	if (c.CertFile == "") != (c.KeyFile == "") {
		return errors.New("event bus client: CertFile and KeyFile go together; one of them is missing")
	}
	return nil
}

// TLSWithOwn reports whether the bus is our own and to be reached over TLS: by a URL that
// begins with tls://, and a token to show there. Then Roots are needed.
func (c Config) TLSWithOwn() bool {
	return c.TokenFile != "" && strings.HasPrefix(c.URL, "tls://")
}

// Open returns the log on the bus, and the connection it uses, which the caller
// closes when it needs the log no more. Like Dial it does not wait for the bus.
// Of the bounds, Conn and APIPrefix are set here; a follower leaves them empty.
func Open(c Config, bounds jetstream.Config) (*jetstream.Log, *nats.Conn, error) {
	conn, err := Dial(c)
	if err != nil {
		return nil, nil, err
	}
	bounds.Conn, bounds.APIPrefix = conn, c.APIPrefix
	if c.APIPrefix == "" && c.TokenFile != "" && c.Role == Follower {
		bounds.APIPrefix = FollowerAPI
	}
	log, err := jetstream.New(bounds)
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	return log, conn, nil
}

// Dial returns a connection that connects by itself, now or later. An error means
// that the configuration is wrong. The caller closes the connection.
func Dial(c Config) (*nats.Conn, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c.Logger = cmp.Or(c.Logger, slog.Default())
	conn, err := nats.Connect(c.URL, c.options()...)
	if err != nil {
		return nil, fmt.Errorf("event bus client: %w", err)
	}
	return conn, nil
}

func (c Config) options() []nats.Option {
	log := c.Logger.With("bus", c.URL)
	options := []nats.Option{
		nats.Name(c.Name),
		nats.CustomInboxPrefix(c.Role.InboxPrefix()),
		nats.Timeout(connectTimeout),
		nats.PingInterval(pingInterval), nats.MaxPingsOutstanding(pingsOut),
		nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1),
		nats.CustomReconnectDelay(delay),
		// A token that is refused now can be accepted later: it is renewed, and
		// the API server that must vouch for it comes back.
		nats.IgnoreAuthErrorAbort(),
		nats.ReconnectBufSize(-1),
		nats.ConnectHandler(func(*nats.Conn) { log.Info("connected to the event bus") }),
		nats.ReconnectHandler(func(*nats.Conn) { log.Info("connected to the event bus again") }),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			log.Warn("lost the connection to the event bus; connecting again", "error", err)
		}),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) {
			log.Warn("the event bus cannot be reached; trying again", "error", err)
		}),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			log.Error("the event bus reports an error", "error", err)
		}),
	}
	if c.TokenFile != "" {
		options = append(options, nats.TokenHandler(func() string { return readToken(c.TokenFile, log) }))
	}
	if c.CredentialsFile != "" {
		options = append(options, nats.UserCredentials(c.CredentialsFile))
	}
	if c.Roots != nil {
		options = append(options, nats.Secure(c.Roots.Client(c.host())))
	}
	if c.CAFile != "" {
		options = append(options, nats.RootCAs(c.CAFile))
	}
	if c.CertFile != "" {
		options = append(options, nats.ClientCert(c.CertFile, c.KeyFile))
	}
	return options
}

// host is the name or address of our own bus, of which there is one.
func (c Config) host() string {
	u, err := url.Parse(c.URL)
	if err != nil {
		return "" // Validate returns this error
	}
	return u.Hostname()
}

// readToken reads the token for one attempt. Without a token the server refuses
// the attempt, and the next one reads again.
func readToken(file string, log *slog.Logger) string {
	token, err := os.ReadFile(file)
	if err != nil {
		log.Error("the token for the event bus cannot be read", "file", file, "error", err)
	}
	return strings.TrimSpace(string(token))
}

// delay waits longer after each failed round, and never the same for two
// clients, so that they do not all come at once when the bus is back.
func delay(attempts int) time.Duration {
	longest := longestDelay
	if attempts < 5 {
		longest = firstDelay << attempts
	}
	return longest/2 + rand.N(longest/2)
}
