package certificates

import (
	"cmp"
	"crypto/x509"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// warnBefore is how long before its end a certificate that was not renewed is a problem.
const warnBefore = 14 * 24 * time.Hour

// renewAt is when two thirds of the lifetime of a certificate have passed.
func renewAt(leaf *x509.Certificate) time.Time {
	return leaf.NotBefore.Add(leaf.NotAfter.Sub(leaf.NotBefore) / 3 * 2)
}

// describe sets the end and the problem. Short certificates are none before they should have been renewed.
func (e *entry) describe(now time.Time) {
	why := cmp.Or(e.Reason, "it was not renewed; check what renews the Secret or the folder")
	if e.cert == nil {
		e.Problem = fmt.Sprintf("There is no certificate for *.%s: %s.", e.Domain, why)
		return
	}
	e.End, e.Problem = e.cert.Leaf.NotAfter, ""
	if e.End.Sub(now) <= warnBefore && !now.Before(renewAt(e.cert.Leaf)) {
		e.Problem = fmt.Sprintf("The certificate for *.%s is valid until %s: %s.", e.Domain, e.End.UTC().Format(time.RFC3339), why)
	}
}

// gauge is a metric of certificates, by domain.
func gauge(name, help string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "switchyard_certificate_" + name, Help: help}, []string{"domain"})
}

// report logs changes of a certificate, and sets the metrics.
func (s *Source) report(was, now entry) {
	log := s.cfg.Logger.With("domain", now.Domain)
	s.end.WithLabelValues(now.Domain).Set(seconds(now.End))
	s.failure.WithLabelValues(now.Domain).Set(seconds(now.Failed))
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

// seconds is a time in seconds since 1970; 0 for the zero time.
func seconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.Unix())
}
