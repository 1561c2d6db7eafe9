package carrier

import "crypto/tls"

// Protocol is what both ends say that they speak within TLS (ALPN).
const Protocol = "switchyard-tunnel/1"

// Secure returns a TLS configuration, of either end, with what the session needs beside its
// certificates: TLS 1.3 and the protocol's name; no resumption, since a session lasts, and who comes
// back is to show himself anew; and records of full size from the first byte on, since what goes
// over it are frames and not the pages of a browser.
func Secure(config *tls.Config) *tls.Config {
	config = config.Clone()
	config.MinVersion = tls.VersionTLS13
	config.NextProtos = []string{Protocol}
	config.SessionTicketsDisabled = true
	config.ClientSessionCache = nil
	config.DynamicRecordSizingDisabled = true
	return config
}
