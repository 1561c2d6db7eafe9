// Package sshd serves stock SSH clients: ssh -R forwards requests for an external workload to the
// workstation, ssh -L and -D reach into the cluster.
//
// Clients authenticate with a certificate that is valid for minutes (sshcert); there are no
// passwords and no other keys. The supported requests are:
//
//	tcpip-forward    for NAME.NAMESPACE[.KIND]:PORT, an external workload and a port of its
//	                 baseline, as in ssh -R NAME.NAMESPACE:8080:localhost:8080
//	direct-tcpip     through the same policy as every connection into the cluster
//
// Shells, commands, agents, X11, Unix sockets and every other request are refused. A connection
// has at most 64 channels, a user at most 128 in all connections, and a connection that continues
// to send refused requests is closed. The unread bytes of all channels have one budget (unread).
// Each connection is a session of its own in the table of tunnels, because SSH has no sessions: a
// client that reconnects takes its tunnels over from its previous connection.
package sshd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"regexp"
	"strconv"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"switchyard.dev/eventbus/callers"
	"switchyard.dev/eventbus/lists"
	"switchyard.dev/eventbus/wake"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tunnels/cluster"
	"switchyard.dev/tunnels/identity"
	"switchyard.dev/tunnels/inbound"
	"switchyard.dev/tunnels/outbound"
	"switchyard.dev/tunnels/sshcert"
	"switchyard.dev/tunnels/sshd/unread"
)

// Cluster reads the external workloads of the cluster.
type Cluster interface {
	// Workload returns one, and whether there is one; Changed is closed when one changes.
	Workload(namespace, name string) (cluster.Workload, bool)
	Changed() <-chan struct{}
}

// Access checks the rights of users.
type Access interface {
	// MayUse and MayUpdate are those of access.Access.
	MayUse(ctx context.Context, user identity.User) *tunnelv1.Refused
	MayUpdate(ctx context.Context, user identity.User, sandbox string) *tunnelv1.Refused
	// Exists is that of access.Access.
	Exists(ctx context.Context, user identity.User) *tunnelv1.Refused
}

// Config configures a Server. All fields are required except Recheck, Clock and Logger.
type Config struct {
	Gate    *outbound.Gate
	Table   *inbound.Table
	Cluster Cluster
	Access  Access
	// Host is the host key, Authority the key that signs certificates of users.
	Host      ssh.Signer
	Authority ssh.PublicKey
	// Recheck is the interval at which the session checks that its user exists and has the rights
	// that it uses. Default: 30 s.
	Recheck time.Duration
	// Clock returns the time. Default: time.Now.
	Clock func() time.Time
	// Logger logs connections and refusals. Default: none.
	Logger *slog.Logger
}

// Server serves connections. It is safe for concurrent use.
type Server struct {
	cfg      Config
	greeting *callers.Pool
	sessions *callers.Pool
	// channels bounds the channels of each user, and budget the unread bytes of all of them.
	channels *callers.Pool
	budget   *unread.Budget
}

const (
	handshakeWithin = 10 * time.Second
	// silence is after how long without data the client is pinged, dead after how long without an
	// answer it is disconnected.
	silence, dead = 2 * time.Second, 5 * time.Second
	// recheck is the default of Config.Recheck. Answers are cached for ten seconds in addition.
	recheck = 30 * time.Second
	// opens is how long a session opens channels after its certificate has expired, and closes
	// how long its open channels may continue after that.
	opens, closes = time.Hour, 10 * time.Minute
	// maxChannels is the maximum of open channels of a connection.
	maxChannels = 64
	// maxUserChannels is the maximum of open channels of a user, in all sessions.
	maxUserChannels = 128
	// maxForwards is the maximum of forwarded ports of a connection.
	maxForwards = 64
	// rejects is how many refusals a second a connection may get, after rejectsBurst in a row.
	rejects, rejectsBurst = 5, 50
)

// New returns a Server.
func New(cfg Config) (*Server, error) {
	if cfg.Gate == nil || cfg.Table == nil || cfg.Cluster == nil || cfg.Access == nil || cfg.Host == nil || cfg.Authority == nil {
		return nil, errors.New("SSH: everything of Config but Recheck, Clock and Logger is needed")
	}
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	cfg.Recheck = cmp.Or(cfg.Recheck, recheck)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	s := &Server{cfg: cfg,
		greeting: callers.NewPool("handshakes", callers.Bounds{Each: 16, Strangers: callers.AnyNumber, Rate: 40, Burst: 64}),
		sessions: callers.NewPool("sessions", callers.Bounds{Each: 64, Pods: 2048}),
		channels: callers.NewPool("channels", callers.Bounds{Each: maxUserChannels, Pods: 1 << 15}),
	}
	s.budget = unread.New(0, s.ended)
	return s, nil
}

// ended logs that a channel or connection was ended because too many bytes were unread.
func (s *Server) ended(e unread.Ended) {
	if e.About == "" {
		s.cfg.Logger.Warn("an SSH connection was closed with all of its channels: too many bytes are unread", "user", e.User, "unread", e.Bytes)
		return
	}
	s.cfg.Logger.Warn("an SSH channel was ended: too many bytes are unread", "user", e.User, "channel", e.About, "unread", e.Bytes, "stalled", e.Stalled)
}

// Serve serves a connection, which it closes. known is called with the user once the client has
// authenticated.
func (s *Server) Serve(ctx context.Context, conn net.Conn, known func(user string)) {
	counted := s.budget.Conn(conn)
	defer counted.Close()
	from := conn.RemoteAddr().String()
	server, channels, requests, who, err := s.shake(counted, from)
	if err != nil {
		s.cfg.Logger.Debug("an SSH client was refused", "from", from, "error", err)
		return
	}
	user := who.user
	known(user.Name)
	counted.Own(user.Name)
	leave, err := s.sessions.Enter(callers.Caller{Kind: callers.Pod, Name: user.Name})
	if err != nil {
		s.cfg.Logger.Info("an SSH client was refused", "from", from, "user", user.Name, "error", err)
		_ = server.Close()
		go ssh.DiscardRequests(requests) // else the connection does not end
		for ch := range channels {
			_ = ch.Reject(ssh.ResourceShortage, err.Error()) // an error means that the client has closed
		}
		return
	}
	defer leave()
	s.cfg.Logger.Info("an SSH client connected", "from", from, "user", user.Name, "version", fmt.Sprintf("%.80q", server.ClientVersion()))
	c := newClient(s, server, counted, who, from)
	c.run(ctx, channels, requests)
	s.cfg.Logger.Info("an SSH client disconnected", "from", from, "user", user.Name, "session", c.owner.Session)
}

// certified is the user of a session.
type certified struct {
	user identity.User
	// until is when the certificate expires.
	until time.Time
}

// shake performs the handshake.
func (s *Server) shake(conn net.Conn, from string) (*ssh.ServerConn, <-chan ssh.NewChannel, <-chan *ssh.Request, certified, error) {
	leave, err := s.greeting.Enter(callers.Behind(from, nil))
	if err != nil {
		return nil, nil, nil, certified{}, err
	}
	defer leave()
	if err := conn.SetDeadline(time.Now().Add(handshakeWithin)); err != nil {
		return nil, nil, nil, certified{}, err
	}
	// The library asks about a key before the client has proved that it has the private one, so
	// the user is kept in the permissions of that key.
	const who, until = "user", "until"
	config := &ssh.ServerConfig{
		ServerVersion: "SSH-2.0-switchyard", MaxAuthTries: 10,
		PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			user, err := sshcert.Check(s.cfg.Authority, key, s.cfg.Clock())
			if err != nil {
				return nil, err
			}
			text, err := user.Encode()
			expires := strconv.FormatUint(key.(*ssh.Certificate).ValidBefore, 10) // Check accepts nothing else
			return &ssh.Permissions{Extensions: map[string]string{who: text, until: expires}}, err
		},
		AuthLogCallback: func(meta ssh.ConnMetadata, method string, err error) {
			if err != nil && method != "none" {
				s.cfg.Logger.Debug("an SSH key was refused", "from", meta.RemoteAddr().String(), "error", err)
			}
		},
	}
	config.AddHostKey(s.cfg.Host)
	server, channels, requests, err := ssh.NewServerConn(&opening{Conn: conn}, config)
	if err != nil {
		return nil, nil, nil, certified{}, err
	}
	user, err := identity.Decode(server.Permissions.Extensions[who])
	expires, bad := strconv.ParseInt(server.Permissions.Extensions[until], 10, 64)
	if err = errors.Join(err, bad); err == nil {
		err = conn.SetDeadline(time.Time{})
	}
	if err != nil {
		_ = server.Close()
		return nil, nil, nil, certified{}, err
	}
	return server, channels, requests, certified{user, time.Unix(expires, 0)}, nil
}

// revoked returns why the session has to end: its user was deleted, or may neither use the
// proxies nor hold a tunnel any more. It is empty otherwise, and when the API server does not
// answer.
func (c *client) revoked(ctx context.Context) string {
	if refused := c.server.cfg.Access.Exists(ctx, c.user); refused != nil && refused.Reason != tunnelv1.Reason_REASON_UNAVAILABLE {
		return refused.Message
	}
	refused := c.server.cfg.Access.MayUse(ctx, c.user)
	if refused == nil || refused.Reason == tunnelv1.Reason_REASON_UNAVAILABLE {
		return ""
	}
	if c.holder.Holds(inbound.Key{}) {
		return ""
	}
	return refused.Message
}

// last ends a session when it has no channel, some time after its certificate expired.
func (c *client) last(ctx context.Context) {
	for wake.Sleep(ctx, time.Second) {
		if err := c.aged(); err != nil && (c.channels.Load() == 0 || !c.server.cfg.Clock().Before(c.until.Add(opens+closes))) {
			c.end(err.Error())
		}
	}
}

// aged returns why the session opens no more channels; nil: it still does.
func (c *client) aged() error {
	if c.server.cfg.Clock().Before(c.until.Add(opens)) {
		return nil
	}
	return fmt.Errorf("the certificate of the session expired at %s, more than %s ago: get a new one with `switchyard tunnel ssh-cert` and connect again", c.until.UTC().Format(time.RFC3339), opens)
}

// end ends the session.
func (c *client) end(why string) {
	c.server.cfg.Logger.Info("an SSH session is ended", "user", c.user.Name, "from", c.from, "session", c.owner.Session, "message", why)
	_ = c.conn.Close()
}

type clusterPort = cluster.Port

// label matches a part of the name of an external workload.
var label = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// kinds may follow the namespace: published clients write the kind of the baseline there.
var kinds = []string{"deploy", "deployment", "rollout", "argorollout", "revtun"}

// parseTarget parses the address of a requested forward: NAME.NAMESPACE[.KIND] and a port.
func parseTarget(host string, port uint32) (target, error) {
	parts := strings.Split(host, ".")
	if len(parts) == 3 {
		for _, k := range kinds {
			if strings.EqualFold(parts[2], k) {
				parts = parts[:2]
				break
			}
		}
	}
	if len(parts) != 2 || !label.MatchString(parts[0]) || !label.MatchString(parts[1]) {
		return target{}, fmt.Errorf("%.253q names no external workload: write ssh -R NAME.NAMESPACE:PORT:localhost:8080, with the name of the SignadotExternalWorkload", host)
	}
	if port == 0 || port > 65535 {
		return target{}, fmt.Errorf("port %d is none of a baseline: give the container port that the external workload lists", port)
	}
	return target{inbound.Key{Namespace: parts[1], Name: parts[0]}, int32(port)}, nil
}

func portsOf(w cluster.Workload) []int32 {
	return lists.Map(w.Ports, func(p cluster.Port) int32 { return p.Baseline })
}

func refusal(reason tunnelv1.Reason, format string, args ...any) *tunnelv1.Refused {
	return &tunnelv1.Refused{Reason: reason, Message: fmt.Sprintf(format, args...)}
}
