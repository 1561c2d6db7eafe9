package server

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"switchyard.dev/eventbus/connect"
	"switchyard.dev/eventbus/jetstream"
	"switchyard.dev/eventbus/program"
	"switchyard.dev/eventbus/trust"
	"switchyard.dev/routeserver/api/receipts"
	"switchyard.dev/routeserver/door"
	"switchyard.dev/routeserver/peers"
)

// Settings are the values of flags and environment variables.
type Settings struct {
	// Bus is how to reach the event bus.
	Bus connect.Config
	// Addresses to listen on, as host:port.
	GRPCAddress, RESTAddress, XDSAddress, MetricsAddress string
	// Peers is the headless Service of all route servers, as host:port, or "" when
	// there is only this one. Own are its own addresses there.
	Peers string
	Own   []string
	// OwnAccounts are the service accounts of the operator's programs, as namespace/name: they have
	// separate pools. TokenFile contains the token with which this route server authenticates to
	// the others.
	OwnAccounts []string
	TokenFile   string
	// TLSDir is the directory with the certificate of this route server and its trusted
	// authorities, "" for none. AcceptPlain accepts sidecars that do not use TLS.
	TLSDir      string
	AcceptPlain bool
	// Anonymous sets the access of callers without a token to the routing APIs.
	Anonymous door.Anonymous
	// Name is what this route server is called.
	Name string
	// LogLevel is the least important level that is logged.
	LogLevel slog.Level
}

// ParseSettings parses the program's arguments, without its name. Values without a flag come from
// the environment (EVENTBUS_URL, POD_NAME, POD_IPS), then from the defaults. Usage is written to
// help. The error is flag.ErrHelp when only help was requested.
func ParseSettings(args []string, getenv func(string) string, help io.Writer) (Settings, error) {
	defaults, err := program.ReadDefaults(getenv)
	if err != nil {
		return Settings{}, err
	}
	name := cmp.Or(getenv("POD_NAME"), "routeserver")
	s := Settings{Name: name, Own: ownAddresses(getenv("POD_IPS")), Bus: connect.Config{Role: connect.Follower, Name: name}}
	flags := flag.NewFlagSet("routeserver", flag.ContinueOnError)
	reached := connect.Flags(flags, getenv, &s.Bus)
	flags.StringVar(&s.GRPCAddress, "grpc-address", ":7777", "address of the routes API over gRPC")
	flags.StringVar(&s.RESTAddress, "rest-address", ":7778", "address of the routes API over HTTP, and of /healthz and /readyz")
	flags.StringVar(&s.XDSAddress, "xds-address", ":7779", "address of xDS, for DevMesh sidecars")
	flags.StringVar(&s.MetricsAddress, "metrics-address", ":9090", "address of /metrics")
	flags.StringVar(&s.Peers, "peers", "", "headless Service of all route servers, as host:port, to query the others for their sidecars; empty if there is only one. POD_IPS in the environment identifies this one")
	own := flags.String("own-service-accounts", "signadot/signadot-controller-manager,signadot/routeserver", "service accounts of the operator's own programs, as namespace/name with commas between: their calls have limits of their own")
	flags.StringVar(&s.TokenFile, "routeserver-token-file", door.TokenFile, "service-account token to show to the other route servers; without the file its calls are anonymous")
	flags.StringVar(&s.TLSDir, "tls-dir", "", "directory with tls.crt, tls.key and ca.crt, to speak TLS over gRPC and xDS, with the other route servers and with an event bus at tls://; it is read again when it changes. Empty: plain only")
	plain := program.AcceptPlain(flags, defaults, &s.AcceptPlain, "accept sidecars that do not speak TLS: those injected by an earlier release. The routes API accepts both, whatever this is")
	flags.TextVar(&s.Anonymous, "anonymous", door.Cluster, "responses over gRPC and HTTP to callers without a service-account token for audience "+door.Audience+": cluster (everything), namespace (of the published API, the part for the namespace of the calling pod) or none; probes are always answered")
	flags.TextVar(&s.LogLevel, "log-level", slog.LevelInfo, "debug, info, warn or error")
	if err := program.Parse(flags, args, help); err != nil {
		return Settings{}, err
	}
	reached()
	plain(s.TLSDir != "")
	s.OwnAccounts = strings.FieldsFunc(*own, func(r rune) bool { return r == ',' || r == ' ' })
	return s, s.validate()
}

func (s Settings) validate() error {
	if s.Peers != "" && len(s.Own) == 0 {
		return errors.New("-peers needs POD_IPS in the environment: without it this route server would ask itself")
	}
	if s.TLSDir == "" && (!s.AcceptPlain || s.Bus.TLSWithOwn()) {
		return errors.New("-accept-plain=false, and the operator's own event bus at tls://, need -tls-dir: it contains the certificate to present and the authority to trust")
	}
	for _, account := range s.OwnAccounts {
		if namespace, name, ok := strings.Cut(account, "/"); !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
			return fmt.Errorf("-own-service-accounts: %q is not like namespace/name", account)
		}
	}
	return s.Bus.Validate()
}

// ownAddresses reads the addresses of a pod as Kubernetes writes them.
func ownAddresses(podIPs string) []string {
	return strings.FieldsFunc(podIPs, func(r rune) bool { return r == ',' || r == ' ' })
}

// Open returns the Config for the settings, and a function that closes the event bus connections,
// which the caller calls after Run. There are two connections, so that API readers do not delay
// routing.
func (s Settings) Open(logger *slog.Logger) (Config, func(), error) {
	folder, err := s.openFolder(logger)
	if err != nil {
		return Config{}, nil, err
	}
	bus := s.Bus
	bus.Logger = logger
	if s.Bus.TLSWithOwn() {
		bus.Roots = folder.Roots()
	}
	log, conn, err := connect.Open(bus, jetstream.Config{})
	if err != nil {
		return Config{}, nil, err
	}
	bus.Name += readersSuffix
	past, connPast, err := connect.Open(bus, jetstream.Config{})
	if err != nil {
		conn.Close()
		return Config{}, nil, err
	}
	hangUp := func() {
		connPast.Close()
		conn.Close()
	}
	var others receipts.Peers
	if s.Peers != "" {
		if others, err = peers.New(s.peers(folder, logger)); err != nil {
			hangUp()
			return Config{}, nil, err
		}
	}
	return Config{
		TLS: folder, RequireTLS: !s.AcceptPlain, Log: log, Past: past, Logger: logger, Metrics: program.Registry(), Peers: others, Name: s.Name,
		GRPCAddress: s.GRPCAddress, RESTAddress: s.RESTAddress, MetricsAddress: s.MetricsAddress,
	}, hangUp, nil
}

// Name is the host by which the operator's programs and sidecars know route servers, and
// that their certificates must be for.
const Name = "routeserver.signadot.svc"

// openFolder opens the folder with the certificate; nil when there is to be none.
func (s Settings) openFolder(logger *slog.Logger) (*trust.Folder, error) {
	if s.TLSDir == "" {
		return nil, nil
	}
	return trust.Open(trust.Config{Dir: s.TLSDir, Name: Name, Logger: logger})
}

// peers is how the other route servers are asked.
func (s Settings) peers(folder *trust.Folder, logger *slog.Logger) peers.Config {
	c := peers.Config{Service: s.Peers, Own: s.Own, TokenFile: s.TokenFile, Logger: logger}
	if folder != nil {
		c.Roots = folder.Roots()
	}
	return c
}

// readersSuffix distinguishes the second connection from the first in the log of the event bus.
const readersSuffix = "-readers"
