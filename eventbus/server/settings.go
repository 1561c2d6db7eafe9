package server

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	"switchyard.dev/eventbus/callers/tokens"
	"switchyard.dev/eventbus/connect"
	"switchyard.dev/eventbus/embedded"
	"switchyard.dev/eventbus/program"
)

// Settings is the command line of the program.
type Settings struct {
	// StoreDir is the directory of the log.
	StoreDir string
	// Listen, Health and Metrics are the addresses to listen on.
	Listen, Health, Metrics string
	// Audience is what the clients' tokens must be made for.
	Audience string
	// Writers and Followers are service accounts, as namespace/name.
	Writers, Followers []string
	// Recorders add to the records of connections, and Auditors read them.
	Recorders, Auditors []string
	// Records bounds these; without Bytes there are none.
	Records embedded.Records
	// MaxStore bounds the files on disk, in bytes.
	MaxStore int64
	// TLSDir is the folder with the certificate for clients, "" for none. AcceptPlain lets
	// clients in that do not want TLS.
	TLSDir      string
	AcceptPlain bool
	// LogLevel is the least level that is logged.
	LogLevel slog.Level
}

// ParseSettings parses the command line, without the program's name. Errors and the answer to
// -help are written to out.
func ParseSettings(args []string, getenv func(string) string, out io.Writer) (Settings, error) {
	var s Settings
	defaults, err := program.ReadDefaults(getenv)
	if err != nil {
		return Settings{}, err
	}
	flags := flag.NewFlagSet("eventbus", flag.ContinueOnError)
	flags.StringVar(&s.StoreDir, "store", "", "`directory` for the log; it must be on a disk that keeps what was synced")
	flags.StringVar(&s.Listen, "listen", ":4222", "`address` for clients")
	flags.StringVar(&s.Health, "health", ":8081", "`address` for /healthz and /readyz")
	flags.StringVar(&s.Metrics, "metrics", ":9090", "`address` for /metrics")
	flags.StringVar(&s.Audience, "audience", "eventbus.signadot.svc", "`audience` that the clients' tokens must be made for")
	flags.Func("writer-service-account", "service account that writes, as `namespace/name`; several with commas or by repeating (default signadot/signadot-controller-manager)", program.List(&s.Writers))
	flags.Func("follower-service-account", "service account that reads, as `namespace/name`; several with commas or by repeating (default signadot/routeserver)", program.List(&s.Followers))
	flags.Func("recorder-service-account", "service account that adds to the records of connections, as `namespace/name`; several with commas or by repeating", program.List(&s.Recorders))
	flags.Func("auditor-service-account", "service account that reads the records of connections, as `namespace/name`; several with commas or by repeating", program.List(&s.Auditors))
	flags.Int64Var(&s.Records.Bytes, "records-bytes", 0, "`bytes` that the records of connections may take on disk, beside --max-store; 0: none are kept")
	flags.DurationVar(&s.Records.Age, "records-age", 0, "how long a record of a connection is kept; 0: until there is no room")
	flags.Int64Var(&s.MaxStore, "max-store", 700<<20, "`bytes` that the log may take on disk; at most 70 per cent of the volume")
	flags.StringVar(&s.TLSDir, "tls-dir", "", "`directory` with tls.crt, tls.key and ca.crt, to speak TLS with clients; it is read again when it changes. Empty: plain only")
	plain := program.AcceptPlain(flags, defaults, &s.AcceptPlain, "accept clients that do not speak TLS: programs of an earlier release")
	flags.TextVar(&s.LogLevel, "log-level", slog.LevelInfo, "least `level` to log: debug, info, warn or error")
	if err := program.Parse(flags, args, out); err != nil {
		return Settings{}, err
	}
	plain(s.TLSDir != "")
	if len(s.Writers) == 0 {
		s.Writers = []string{"signadot/signadot-controller-manager"}
	}
	if len(s.Followers) == 0 {
		s.Followers = []string{"signadot/routeserver"}
	}
	return s, s.validate()
}

func (s Settings) validate() error {
	if s.StoreDir == "" {
		return errors.New("--store is missing; name the directory for the log")
	}
	if s.TLSDir == "" && !s.AcceptPlain {
		return errors.New("--accept-plain=false needs --tls-dir: without a certificate no client could connect")
	}
	for _, account := range slices.Concat(s.Writers, s.Followers, s.Recorders, s.Auditors) {
		namespace, name, ok := strings.Cut(account, "/")
		if !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
			return fmt.Errorf("service account %q must be namespace/name", account)
		}
	}
	return nil
}

// RoleOf returns the role of a client. A service account that is both is a writer, which can
// read too.
func (s Settings) RoleOf(who tokens.Identity) (connect.Role, error) {
	for _, of := range []struct {
		accounts []string
		role     connect.Role
	}{{s.Writers, connect.Writer}, {s.Followers, connect.Follower}, {s.Recorders, connect.Recorder}, {s.Auditors, connect.Auditor}} {
		if slices.Contains(of.accounts, who.String()) {
			return of.role, nil
		}
	}
	return 0, fmt.Errorf("service account %s may neither write nor follow the log; see --writer-service-account and --follower-service-account", who)
}
