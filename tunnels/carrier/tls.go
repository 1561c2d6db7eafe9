package carrier

import (
	"cmp"
	"crypto/tls"
)

// Protocol is the name of the protocol of workstations, which both ends negotiate within TLS (ALPN).
const Protocol = "switchyard-tunnel/1"

// Secure is Settings.Secure of the sessions of workstations.
func Secure(config *tls.Config) *tls.Config { return Settings{}.Secure(config) }

// Secure returns a TLS configuration, of either end, with the settings that the session needs
// beside its certificates: TLS 1.3 and the protocol's name; no resumption, since sessions last
// long and a client that reconnects has to authenticate again; and records of full size from the
// first byte on, since the content are frames and not the pages of a browser.
func (c Settings) Secure(config *tls.Config) *tls.Config {
	config = config.Clone()
	config.MinVersion = tls.VersionTLS13
	config.NextProtos = []string{cmp.Or(c.Protocol, Protocol)}
	config.SessionTicketsDisabled = true
	config.ClientSessionCache = nil
	config.DynamicRecordSizingDisabled = true
	return config
}
