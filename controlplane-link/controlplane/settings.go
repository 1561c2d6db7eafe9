package controlplane

import (
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/rest"

	"switchyard.dev/controlplane-link/certificates"
	"switchyard.dev/controlplane-link/controlplane/admin"
	"switchyard.dev/controlplane-link/controlplane/login"
	"switchyard.dev/controlplane-link/controlplane/store/seal"
	"switchyard.dev/eventbus/program"
	"switchyard.dev/eventbus/trust"
	"switchyard.dev/workflows/jobexec/results"
)

// Settings are the flags of the program.
type Settings struct {
	Config
	Level                           slog.Level
	tls, replicas                   trust.Config
	acme                            certificates.ACME
	proxies                         []string
	keys, postgres, login, firstKey string
}

// Flags adds the flags.
func (s *Settings) Flags(flags *flag.FlagSet) {
	flags.StringVar(&s.Store.Path, "database", "/var/lib/controlplane/controlplane.db", "file of SQLite, on a local file system")
	flags.StringVar(&s.postgres, "postgres-url-file", "", "file with the URL of a PostgreSQL database, which is used instead of SQLite")
	flags.StringVar(&s.keys, "keys-file", "/etc/controlplane/keys/keys", "file with the keys that encrypt secrets: an identifier and 32 bytes in base64 in each line, the first one encrypts")
	flags.StringVar(&s.AgentsAddress, "agents-address", ":7443", "address for agents")
	flags.StringVar(&s.APIAddress, "api-address", ":8443", "address of the REST API and the pages for logins, over TLS")
	flags.StringVar(&s.ProxyAddress, "proxy-address", ":8444", "address for connections of users to Services: HTTP CONNECT and reverse proxy, over TLS")
	flags.StringVar(&s.Previews.Address, "previews-address", ":8445", "address of previews, over TLS, if there are any")
	flags.Func("preview-domain", "ORGANISATION=DOMAIN: endpoints of its sandboxes have previews below the domain, which no other organisation has; can be repeated", s.Previews.add)
	s.certificateFlags(flags)
	flags.BoolVar(&s.Previews.Embedded, "previews-embedded", false, "whether other sites embed previews: their cookies have SameSite=None and Partitioned")
	flags.BoolVar(&s.Previews.AnswersPreflights, "previews-answer-preflights", false, "answer CORS preflights for other previews of the domain instead of forwarding them")
	flags.BoolVar(&s.Previews.ServiceWorkers, "previews-service-workers", false, "let previews have service workers, which can read codes of logins to their host")
	flags.StringVar(&s.MetricsAddress, "metrics-address", ":9090", "address of /metrics, /healthz and /readyz")
	flags.StringVar(&s.ReplicasAddress, "replicas-address", "", "address for other replicas; empty: there are none")
	flags.StringVar(&s.Link.Replica, "replica", "controlplane", "name of this replica: the host:port at which others reach its replicas-address")
	flags.StringVar(&s.replicas.Dir, "replicas-tls-dir", "/etc/controlplane/replicas-tls", "folder with tls.crt, tls.key and ca.crt of replicas; the authority signs for nothing else")
	flags.StringVar(&s.replicas.Name, "replicas-tls-name", "controlplane-replicas", "host name in the certificates of replicas")
	flags.StringVar(&s.tls.Dir, "tls-dir", "/etc/controlplane/tls", "folder with tls.crt, tls.key and ca.crt")
	flags.StringVar(&s.tls.Name, "tls-name", "", "host name in the certificate, which agents and users connect to")
	flags.StringVar(&s.SigningKey, "signing-key", "", "file with an Ed25519 private key (PKCS #8, PEM), for credentials with which users connect workstations; empty: none are issued")
	flags.StringVar(&s.URL, "url", "", "origin of the pages for logins, such as https://control.example.com; default: that of tls-name")
	flags.StringVar(&s.login, "login", "", "file with the settings of logins; empty: there are none")
	flags.StringVar(&s.Organisation, "organisation", "default", "organisation to create if it does not exist; empty: none")
	flags.StringVar(&s.firstKey, "admin-secret", "", "NAMESPACE/NAME of the Secret for the key of the organisation's first administrator; empty: none")
	flags.Func("proxies", "addresses of proxies in front of the API, as CIDR, separated by commas", program.List(&s.proxies))
	flags.DurationVar(&s.KeepEvents, "keep-events", 400*24*time.Hour, "how long entries of the audit trail are kept; 0: for ever")
	flags.DurationVar(&s.KeepDevboxes, "keep-devboxes", 90*24*time.Hour, "how long devboxes that are not used are kept; 0: for ever")
	s.artifactFlags(flags)
	flags.DurationVar(&s.KeepJobs, "keep-jobs", 7*24*time.Hour, "how long jobs that have ended are kept, with their output and artifacts; 0: for ever")
	flags.DurationVar(&s.KeepCaptures, "keep-captures", 7*24*time.Hour, "how long captures of requests are kept, at least 2h; 0: for ever")
	flags.Func("capture-size", "size at which a capture ends, as a quantity; default 256Mi", bytesOf(&s.Captures.Capture))
	flags.Func("captures-size", "size of all captures of an organisation beyond which none begins, as a quantity; default 4Gi", bytesOf(&s.Captures.Organisation))
	flags.TextVar(&s.Level, "log-level", slog.LevelInfo, "debug, info, warn or error")
}

// artifactFlags adds the flags of the output and artifacts of jobs.
func (s *Settings) artifactFlags(flags *flag.FlagSet) {
	a := &s.Artifacts
	flags.StringVar(&a.Folder, "artifacts-dir", "/var/lib/controlplane/artifacts", "folder for the output and artifacts of jobs, on a file system that all replicas have; empty: none, and without a bucket none is kept")
	flags.StringVar(&a.S3.Bucket, "artifacts-bucket", "", "bucket of S3 for the output and artifacts of jobs, in place of the folder; credentials are AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY of the environment, or those of the pod at Amazon")
	flags.StringVar(&a.S3.Endpoint, "artifacts-endpoint", "", "URL of the server of the bucket; empty: that of Amazon")
	flags.StringVar(&a.S3.Region, "artifacts-region", "", "region of the bucket; empty: the server is asked")
	flags.Func("artifact-size", "maximum size of an artifact, as a quantity; default 1Gi", bytesOf(&a.Limits.File))
	flags.Func("job-artifacts-size", "maximum size of all artifacts of a job, as a quantity; default 2Gi", bytesOf(&a.Limits.Job))
	flags.IntVar(&a.Limits.Files, "job-artifacts", results.DefaultLimits.Files, "maximum number of artifacts of a job that are kept")
}

// bytesOf returns a function that sets a number of bytes from a quantity.
func bytesOf(to *int64) func(string) error {
	return func(text string) error {
		q, err := resource.ParseQuantity(text)
		if err == nil && q.Value() <= 0 {
			err = errors.New("the quantity is not positive")
		}
		*to = q.Value()
		return err
	}
}

// certificateFlags adds the flags of the certificates of previews.
func (s *Settings) certificateFlags(flags *flag.FlagSet) {
	flags.StringVar(&s.Previews.Certificates.Dir, "previews-tls-dir", "", "folder with tls.crt, for *.DOMAIN of all preview domains, and tls.key; empty: certificates are from an ACME server")
	flags.StringVar(&s.acme.Directory, "acme-directory", "", "URL of the directory of an ACME server, which issues the certificates of previews by DNS-01; empty: none")
	flags.BoolVar(&s.acme.AcceptTerms, "acme-accept-terms", false, "whether the terms of service of the ACME server are accepted")
	flags.StringVar(&s.acme.Email, "acme-email", "", "contact of the ACME account; empty: none")
	flags.StringVar(&s.acme.CAFile, "acme-ca-file", "", "file with the authorities of the ACME server; empty: those of the system")
	flags.StringVar(&s.acme.RFC2136, "acme-rfc2136", "", "file with the settings of DNS updates (RFC 2136): nameserver, keyName, secret, and if needed algorithm and secondaries")
}

// Read reads the files, and returns the configuration.
func (s *Settings) Read(logger *slog.Logger) (c Config, err error) {
	c, c.Logger = s.Config, logger
	for _, text := range s.proxies {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return c, fmt.Errorf("-proxies: %w", err)
		}
		c.Proxies = append(c.Proxies, p)
	}
	if s.acme.Directory != "" {
		c.Previews.Certificates.ACME = &s.acme
	}
	if c.URL == "" {
		c.URL = "https://" + s.tls.Name
	}
	if s.login != "" {
		if c.Login, err = login.Read(s.login); err != nil {
			return c, err
		}
	}
	if c.FirstKey, err = s.adminSecret(); err != nil {
		return c, err
	}
	if c.Store.Keys, err = seal.Read(s.keys); err != nil {
		return c, err
	}
	if s.postgres != "" {
		text, err := os.ReadFile(s.postgres)
		if err != nil {
			return c, fmt.Errorf("the URL of the PostgreSQL database: %w", err)
		}
		c.Store.Path, c.Store.PostgreSQL = "", strings.TrimSpace(string(text))
	}
	s.tls.ByHand, s.tls.Logger, s.replicas.ByHand, s.replicas.Logger = true, logger, true, logger
	if c.TLS, err = trust.Open(s.tls); err != nil || c.ReplicasAddress == "" {
		return c, err
	}
	if c.Replicas, err = trust.Open(s.replicas); err == nil {
		c.Link.Replicas = c.Replicas.Mutual()
	}
	return c, err
}

// adminSecret returns the Secret of the first administrator; nil: none.
func (s *Settings) adminSecret() (*admin.Secret, error) {
	if s.firstKey == "" {
		return nil, nil
	}
	namespace, name, is := strings.Cut(s.firstKey, "/")
	if !is || s.Organisation == "" {
		return nil, errors.New("-admin-secret needs the form NAMESPACE/NAME, and -organisation")
	}
	cluster, err := rest.InClusterConfig()
	return &admin.Secret{Cluster: cluster, Namespace: namespace, Name: name}, err
}
