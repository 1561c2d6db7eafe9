package controlplane

import "flag"

// certificateFlags adds the flags of the certificates of previews.
func (s *Settings) certificateFlags(flags *flag.FlagSet) {
	flags.StringVar(&s.Previews.Certificates.Dir, "previews-tls-dir", "", "folder with tls.crt, for *.DOMAIN of all preview domains, and tls.key; empty: certificates are from an ACME server")
	flags.StringVar(&s.acme.Directory, "acme-directory", "", "URL of the directory of an ACME server, which issues the certificates of previews by DNS-01; empty: none")
	flags.BoolVar(&s.acme.AcceptTerms, "acme-accept-terms", false, "whether the terms of service of the ACME server are accepted")
	flags.StringVar(&s.acme.Email, "acme-email", "", "contact of the ACME account; empty: none")
	flags.StringVar(&s.acme.CAFile, "acme-ca-file", "", "file with the authorities of the ACME server; empty: those of the system")
	flags.StringVar(&s.acme.RFC2136, "acme-rfc2136", "", "file with the settings of DNS updates (RFC 2136): nameserver, keyName, secret, and if needed algorithm and secondaries")
}
