package certificates

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"switchyard.dev/eventbus/trust"
)

// State is the state of the certificate of a domain, for users.
type State struct {
	// Domain is the preview domain that it is for.
	Domain string
	// End is the end of the certificate; zero: there is none.
	End time.Time
	// Failed is the time of the last attempt to renew it, if that has failed, or of the first failed read of the files,
	// and Reason the error.
	Failed time.Time
	Reason string
	// Problem is a warning for users, in one or two sentences: there is no certificate, or the one that there is ends
	// within 14 days and was not renewed. Empty: there is none.
	Problem string
	cert    *tls.Certificate // nil: there is none
}

// with is the state with a certificate and an error that is no failed order. Failed stays as long as the error does.
func (s State) with(cert *tls.Certificate, now time.Time, err error) State {
	next := State{Domain: s.Domain, Failed: now, Reason: oneLine(err), cert: cert}
	if next.Reason == s.Reason {
		next.Failed = s.Failed
	}
	return next
}

// oneLine is the text of an error without line breaks.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// readFolder reads the certificate of a domain in a folder, which other domains can share. The previous one stays if
// clients would not accept the new one.
func readFolder(dir string, was State, now time.Time) State {
	file := filepath.Join(dir, trust.CertFile)
	cert, err := tls.LoadX509KeyPair(file, filepath.Join(dir, trust.KeyFile))
	if err == nil {
		err = cert.Leaf.VerifyHostname("preview." + was.Domain)
	}
	if err == nil && !now.Before(cert.Leaf.NotAfter) {
		err = fmt.Errorf("it expired at %s", cert.Leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	if err != nil {
		return was.with(was.cert, now, fmt.Errorf("the certificate in %s with key %s cannot be used for *.%s: %w", file, trust.KeyFile, was.Domain, err))
	}
	return State{Domain: was.Domain, cert: &cert}
}

// warnBefore is how long before its end a certificate that was not renewed is a problem.
const warnBefore = 14 * 24 * time.Hour

// renewAt is when two thirds of the lifetime of a certificate have passed.
func renewAt(leaf *x509.Certificate) time.Time {
	return leaf.NotBefore.Add(leaf.NotAfter.Sub(leaf.NotBefore) / 3 * 2)
}

// describe sets the end and the problem. Short certificates are none before they should have been renewed.
func (s *State) describe(now time.Time) {
	why := cmp.Or(s.Reason, "it was not renewed; check what renews the Secret or the folder")
	if s.cert == nil {
		s.Problem = fmt.Sprintf("There is no certificate for *.%s: %s.", s.Domain, cmp.Or(s.Reason, "it is being ordered"))
		return
	}
	s.End, s.Problem = s.cert.Leaf.NotAfter, ""
	if s.End.Sub(now) <= warnBefore && !now.Before(renewAt(s.cert.Leaf)) {
		s.Problem = fmt.Sprintf("The certificate for *.%s is valid until %s: %s.", s.Domain, s.End.UTC().Format(time.RFC3339), why)
	}
}

// report logs changes of a certificate, and sets the metrics.
func (s *Source) report(was, now State) {
	log := s.cfg.Logger.With("domain", now.Domain)
	s.end.WithLabelValues(now.Domain).Set(float64(max(0, now.End.Unix()))) // the zero time is before 1970
	s.failure.WithLabelValues(now.Domain).Set(float64(max(0, now.Failed.Unix())))
	if now.cert != nil && (was.cert == nil || !was.cert.Leaf.Equal(now.cert.Leaf)) {
		log.Info("serving previews with a certificate", "authority", now.cert.Leaf.Issuer.CommonName, "expires", now.End)
	}
	if now.Reason != "" && !now.Failed.Equal(was.Failed) {
		log.Error("the certificate of previews was not renewed; the previous one, if there is one, stays in use", "error", now.Reason)
	}
	if now.Problem != "" && now.Problem != was.Problem {
		log.Warn("previews need a certificate", "problem", now.Problem)
	}
}
