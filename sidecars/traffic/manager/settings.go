package manager

import (
	"flag"
	"fmt"
	"io"
	"log/slog"

	"k8s.io/apimachinery/pkg/api/resource"

	"switchyard.dev/eventbus/program"
)

// Settings are the values that the program takes from flags.
type Settings struct {
	// These are as in Config.
	Address, HealthAddress, Store, Replica string
	StoreBytes                             int64
	Readers                                []string
	Always                                 Elision
	// Namespace is the operator's, TLSDir the folder with the certificate, and TicketKeys the file with the keys of tickets.
	Namespace, TLSDir, TicketKeys string
	// Token is the file with the token that this replica shows to the service of traffic-manager, to record members without
	// pods; empty: it records none.
	Token string
	// LogLevel is the least important level that is logged.
	LogLevel slog.Level
}

// ParseSettings parses the program's arguments, without its name. Usage goes to help. The error is flag.ErrHelp when the arguments
// request help.
func ParseSettings(args []string, help io.Writer) (Settings, error) {
	var s Settings
	flags := flag.NewFlagSet("traffic-manager", flag.ContinueOnError)
	flags.StringVar(&s.Address, "address", ":7444", "address of the services for traffic containers and readers, over TLS")
	flags.StringVar(&s.HealthAddress, "health-address", ":16001", "address of /metrics, /healthz and /readyz")
	flags.StringVar(&s.Namespace, "namespace", "signadot", "namespace of the operator")
	flags.StringVar(&s.TLSDir, "tls-dir", "/var/run/secrets/tls", "directory with tls.crt, tls.key and ca.crt; it is read again when it changes")
	flags.StringVar(&s.Store, "store", "/var/lib/traffic", "directory of the stored exchanges")
	flags.Func("store-size", "size of that directory, such as 512Mi (default 512Mi): the exchanges have seven eighths of it", func(text string) error {
		q, err := resource.ParseQuantity(text)
		if err == nil && q.Value() < minStore {
			err = fmt.Errorf("at least %d bytes are needed", minStore)
		}
		s.StoreBytes = q.Value()
		return err
	})
	flags.StringVar(&s.Replica, "replica", "", "name of this replica: that of its pod")
	flags.Func("readers", "accounts that can read all captures, as NAMESPACE:NAME, separated by commas", program.List(&s.Readers))
	flags.StringVar(&s.TicketKeys, "ticket-keys", "", "file with the public keys of tickets, a JSON Web Key Set; it is read again when it changes")
	flags.StringVar(&s.Token, "token", "", "file with a token of this pod for audience "+Audience+", with which it records the requests of external and virtual workloads; empty: it records none")
	flags.Func("request-headers-elided", "headers of requests that no capture has, separated by commas", program.List(&s.Always.RequestHeaders))
	flags.Func("response-headers-elided", "headers of responses that no capture has, separated by commas", program.List(&s.Always.ResponseHeaders))
	flags.TextVar(&s.LogLevel, "log-level", slog.LevelInfo, "debug, info, warn or error")
	s.StoreBytes = 512 << 20
	if err := program.Parse(flags, args, help); err != nil {
		return Settings{}, err
	}
	return s, nil
}
