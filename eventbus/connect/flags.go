package connect

import (
	"cmp"
	"flag"
)

// Flags adds to a set the flags for the connection to the event bus, which write to c. Missing
// flags are taken from the environment (EVENTBUS_URL), then from the defaults: the operator's
// own bus, and the token that the chart mounts. Call the returned function once the set is
// parsed.
func Flags(set *flag.FlagSet, getenv func(string) string, c *Config) (parsed func()) {
	url := cmp.Or(getenv("EVENTBUS_URL"), "nats://eventbus.signadot.svc:4222")
	set.StringVar(&c.URL, "eventbus-url", url, "event bus; several servers of one cluster with commas between; EVENTBUS_URL in the environment")
	set.StringVar(&c.TokenFile, "eventbus-token-file", "/var/run/secrets/tokens/eventbus", "service-account token for the event bus; empty for none")
	set.StringVar(&c.CredentialsFile, "eventbus-credentials-file", "", "NATS credentials instead of a token, for an event bus of your own")
	set.StringVar(&c.CAFile, "eventbus-ca-file", "", "certificate authority of an event bus that speaks TLS; empty for the system's")
	set.StringVar(&c.CertFile, "eventbus-cert-file", "", "certificate to show to an event bus that wants one")
	set.StringVar(&c.KeyFile, "eventbus-key-file", "", "key of that certificate")
	set.StringVar(&c.APIPrefix, "eventbus-api-prefix", "", "where an event bus of your own takes JetStream's calls; empty for $JS.API")
	return func() {
		given := false
		set.Visit(func(f *flag.Flag) { given = given || f.Name == "eventbus-token-file" })
		// The default is for the operator's own bus: no other bus may see the token.
		if !given && (c.CredentialsFile != "" || c.CertFile != "") {
			c.TokenFile = ""
		}
	}
}
