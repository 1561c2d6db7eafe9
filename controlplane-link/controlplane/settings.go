package controlplane

import (
	"flag"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"strings"
	"time"

	"switchyard.dev/controlplane-link/controlplane/store"
	"switchyard.dev/controlplane-link/controlplane/store/seal"
	"switchyard.dev/eventbus/program"
	"switchyard.dev/eventbus/trust"
)

// Settings are the flags of the program.
type Settings struct {
	Config
	database, keys string
	postgres       string
	tls, replicas  trust.Config
	proxies        []string
	Level          slog.Level
}

// prefix is that of the environment variables with the settings of the store, which commands in the same container
// need as well.
const prefix = "CONTROLPLANE_"

// fromEnv returns the value of a variable, or what it is without.
func fromEnv(name, without string) string {
	if value, is := os.LookupEnv(prefix + name); is {
		return value
	}
	return without
}

// StoreFlags adds the flags of the store, which commands have as well.
func (s *Settings) StoreFlags(flags *flag.FlagSet) {
	flags.StringVar(&s.database, "database", fromEnv("DATABASE", "/var/lib/controlplane/controlplane.db"), "file of SQLite, on a local file system")
	flags.StringVar(&s.postgres, "postgres-url-file", fromEnv("POSTGRES_URL_FILE", ""), "file with the URL of a PostgreSQL database, which is used instead of SQLite")
	flags.StringVar(&s.keys, "keys-file", fromEnv("KEYS_FILE", "/etc/controlplane/keys/keys"), "file with the keys that encrypt secrets: an identifier and 32 bytes in base64 in each line, the first one encrypts")
}

// Flags adds all flags.
func (s *Settings) Flags(flags *flag.FlagSet) {
	s.StoreFlags(flags)
	flags.StringVar(&s.AgentsAddress, "agents-address", ":7443", "address for agents")
	flags.StringVar(&s.APIAddress, "api-address", ":8443", "address of the REST API and the pages for logins, over TLS")
	flags.StringVar(&s.ProxyAddress, "proxy-address", ":8444", "address for connections of users to Services: HTTP CONNECT and reverse proxy, over TLS")
	flags.StringVar(&s.MetricsAddress, "metrics-address", ":9090", "address of /metrics, /healthz and /readyz")
	flags.StringVar(&s.ReplicasAddress, "replicas-address", "", "address for other replicas; empty: there are none")
	flags.StringVar(&s.Link.Replica, "replica", "controlplane", "name of this replica: the host:port at which others reach its replicas-address")
	flags.StringVar(&s.replicas.Dir, "replicas-tls-dir", "/etc/controlplane/replicas-tls", "folder with tls.crt, tls.key and ca.crt of replicas; the authority signs for nothing else")
	flags.StringVar(&s.replicas.Name, "replicas-tls-name", "controlplane-replicas", "host name in the certificates of replicas")
	flags.StringVar(&s.tls.Dir, "tls-dir", "/etc/controlplane/tls", "folder with tls.crt, tls.key and ca.crt")
	flags.StringVar(&s.tls.Name, "tls-name", "", "host name in the certificate, which agents and users connect to")
	flags.StringVar(&s.SigningKey, "signing-key", "", "file with an Ed25519 private key (PKCS #8, PEM), for credentials with which users connect workstations; empty: none are issued")
	flags.Func("proxies", "addresses of proxies in front of the API, as CIDR, separated by commas", program.List(&s.proxies))
	flags.DurationVar(&s.KeepEvents, "keep-events", 400*24*time.Hour, "how long entries of the audit trail are kept; 0: for ever")
	flags.DurationVar(&s.KeepDevboxes, "keep-devboxes", 90*24*time.Hour, "how long devboxes that are not used are kept; 0: for ever")
	flags.TextVar(&s.Level, "log-level", slog.LevelInfo, "debug, info, warn or error")
}

// StoreConfig reads the files of the store.
func (s *Settings) StoreConfig() (c store.Config, err error) {
	if c.Keys, err = seal.Read(s.keys); err != nil {
		return c, err
	}
	if s.postgres == "" {
		c.Path = s.database
		return c, nil
	}
	text, err := os.ReadFile(s.postgres)
	c.PostgreSQL = strings.TrimSpace(string(text))
	if err == nil && c.PostgreSQL == "" {
		err = fmt.Errorf("%s is empty: write the URL of the PostgreSQL database into it", s.postgres)
	}
	return c, err
}

// Read reads the files, and returns the configuration.
func (s *Settings) Read(logger *slog.Logger) (c Config, err error) {
	c = s.Config
	c.Logger = logger
	if c.Store, err = s.StoreConfig(); err != nil {
		return c, err
	}
	for _, text := range s.proxies {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return c, fmt.Errorf("-proxies: %w", err)
		}
		c.Proxies = append(c.Proxies, p)
	}
	s.tls.ByHand, s.tls.Logger = true, logger
	if c.TLS, err = trust.Open(s.tls); err != nil || c.ReplicasAddress == "" {
		return c, err
	}
	s.replicas.ByHand, s.replicas.Logger = true, logger
	if c.Replicas, err = trust.Open(s.replicas); err == nil {
		c.Link.Replicas = c.Replicas.Mutual()
	}
	return c, err
}
