package certificates

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// warnBefore is how long before its end a certificate that was not renewed is a problem.
	warnBefore = 14 * 24 * time.Hour
	// warnEvery is the pause between two log records about a problem that stays.
	warnEvery = 24 * time.Hour
)

// renewAt is when two thirds of the lifetime of a certificate have passed.
func renewAt(begin, end time.Time) time.Time { return begin.Add(end.Sub(begin) / 3 * 2) }

// state returns the state for users. Short certificates are no problem before they should have been renewed.
func (e entry) state(now time.Time) State {
	s := State{Domain: e.domain, Failed: e.failed, Reason: e.reason}
	name := "*." + e.domain
	why := "It was not renewed. Check what renews the Secret or the folder."
	if e.reason != "" {
		why = "Last attempt: " + e.reason + "."
	}
	if e.cert == nil {
		s.Problem = fmt.Sprintf("There is no certificate for %s. %s", name, why)
		return s
	}
	leaf := e.cert.Leaf
	s.End = leaf.NotAfter
	switch end := s.End.UTC().Format(time.RFC3339); {
	case !now.Before(s.End):
		s.Problem = fmt.Sprintf("The certificate for %s ended at %s. %s", name, end, why)
	case s.End.Sub(now) <= warnBefore && !now.Before(renewAt(leaf.NotBefore, s.End)):
		s.Problem = fmt.Sprintf("The certificate for %s ends at %s. %s", name, end, why)
	}
	return s
}

// metrics are the metrics of certificates, by domain.
type metrics struct{ end, failure *prometheus.GaugeVec }

func newMetrics() *metrics {
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "switchyard_certificate_" + name, Help: help}, []string{"domain"})
	}
	return &metrics{
		end:     gauge("end_timestamp_seconds", "End of the certificate of a preview domain; 0: there is none."),
		failure: gauge("failure_timestamp_seconds", "Last attempt to read or renew the certificate of a preview domain, if it has failed; 0: it has not."),
	}
}

func (m *metrics) register(to prometheus.Registerer) error {
	return errors.Join(to.Register(m.end), to.Register(m.failure))
}

// report logs a change of a certificate and its problem, and sets the metrics.
func (s *Source) report(was, now entry) {
	state, log := now.state(s.cfg.Now()), s.cfg.Logger.With("domain", now.domain)
	s.metrics.end.WithLabelValues(now.domain).Set(seconds(state.End))
	s.metrics.failure.WithLabelValues(now.domain).Set(seconds(state.Failed))
	if now.cert != nil && (was.cert == nil || !was.cert.Leaf.Equal(now.cert.Leaf)) {
		log.Info("serving previews with a certificate", "authority", now.cert.Leaf.Issuer.CommonName, "expires", state.End)
	}
	if !now.failed.IsZero() && !(now.failed.Equal(was.failed) && now.reason == was.reason) {
		log.Error("the certificate of previews was not renewed; the previous one, if there is one, stays in use", "error", now.reason)
	}
	s.warn(log, state)
}

// warn logs a problem, once a day.
func (s *Source) warn(log *slog.Logger, state State) {
	now := s.cfg.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if state.Problem == "" {
		delete(s.warned, state.Domain)
	} else if now.Sub(s.warned[state.Domain]) >= warnEvery {
		s.warned[state.Domain] = now
		log.Warn("previews need a certificate", "problem", state.Problem)
	}
}

// seconds is a time in seconds since 1970; 0 for the zero time.
func seconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.Unix())
}
