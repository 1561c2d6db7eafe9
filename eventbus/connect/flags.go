package connect

import "flag"

// Flags adds to a set the flags by which a program is told how to reach the
// event bus, and writes what they say to c. What no flag says is taken from the
// environment (EVENTBUS_URL), then from the defaults: our own bus, and the token
// that the chart mounts. Call the function that it gives once the set is parsed.
func Flags(set *flag.FlagSet, getenv func(string) string, c *Config) (parsed func()) {
	url := getenv("EVENTBUS_URL")
	if url == "" {
		url = "nats://eventbus.signadot.svc:4222"
	}
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
		// The default is for our own bus: nobody else's is to see the token.
		if !given && (c.CredentialsFile != "" || c.CertFile != "") {
			c.TokenFile = ""
		}
	}
}
