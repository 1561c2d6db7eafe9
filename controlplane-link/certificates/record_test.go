package certificates

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// TestFailedOrdersAreFew counts the orders of a replica that checks each minute and always fails.
func TestFailedOrdersAreFew(t *testing.T) {
	for range 100 {
		var r record
		orders := map[int]int{} // by day
		for minute := range 3 * 24 * 60 {
			if now := noon.Add(time.Duration(minute) * time.Minute); r.due(now, noon) {
				orders[minute/24/60]++
				r = r.faulted(now, noon, errors.New("refused"))
			}
		}
		if orders[0] < 3 || orders[0] > 4 || orders[1] < 1 || orders[1] > 2 || orders[2] < 1 || orders[2] > 2 {
			t.Fatalf("orders of three days: %v", orders)
		}
	}
}

// TestNewerSettingsAreTriedAtOnce, each of them once, while replicas have different ones.
func TestNewerSettingsAreTriedAtOnce(t *testing.T) {
	var r record
	orders := 0
	for range 20 {
		for _, age := range []time.Duration{2, 1, 0, 2, -time.Hour, 0} { // also of a clock that is ahead
			if settings := noon.Add(-age); r.due(noon, settings) {
				orders++
				r = r.faulted(noon, settings, errors.New("refused"))
			}
		}
	}
	if orders != 4 {
		t.Errorf("%d orders at once, want 4", orders)
	}
	if late := r.faulted(noon, noon.Add(-time.Minute), errors.New("refused")); late.due(noon, noon.Add(time.Hour)) {
		t.Error("settings are tried again after older ones")
	}
}

func TestDue(t *testing.T) {
	failed := record{}.faulted(noon, noon, errors.New("two\nlines"))
	if failed.Reason != "two lines" || failed.Failures != 1 {
		t.Errorf("%+v", failed)
	}
	renewed := failed.succeeded(noon, nil, nil)
	for name, c := range map[string]struct {
		r    record
		at   time.Duration
		want bool
	}{
		"first":                      {record{}, 0, true},
		"another replica orders":     {record{}.leased(noon), leaseFor - 1, false},
		"the lease has ended":        {record{}.leased(noon), leaseFor, true},
		"failed":                     {failed, time.Hour - 1, false},
		"failed long ago":            {failed, 75 * time.Minute, true},
		"another failed, and orders": {failed.leased(noon.Add(2 * time.Hour)), 2 * time.Hour, false},
		"a success":                  {renewed, time.Hour - 1, false},
		"a success, and due again":   {renewed, time.Hour, true},
	} {
		if got := c.r.due(noon.Add(c.at), noon); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if failed.leased(noon).due(noon, noon.Add(time.Minute)) || renewed.due(noon, noon.Add(time.Minute)) {
		t.Error("newer settings are tried during an order, or after a success")
	}
}

// TestProblems: from 14 days before its end, or from two thirds of a short lifetime, and without a certificate.
func TestProblems(t *testing.T) {
	const day = 24 * time.Hour
	for name, c := range map[string]struct {
		lifetime, age time.Duration
		reason        string
		want          string
	}{
		"renewal is late":            {90 * day, 75 * day, "refused", ""},
		"14 days":                    {90 * day, 76 * day, "refused", "The certificate for *.a.example is valid until 2027-02-28T12:00:00Z: refused."},
		"14 days, no attempt":        {90 * day, 76 * day, "", "it was not renewed; check what renews the Secret or the folder."},
		"short":                      {6 * day, 4*day - 1, "", ""},
		"short, after its renewal":   {6 * day, 4 * day, "", "is valid until"},
		"ended":                      {90 * day, 90 * day, "", "The certificate for *.a.example is valid until 2027-02-28T12:00:00Z: it was not"},
		"none":                       {0, 0, "refused", "There is no certificate for *.a.example: refused."},
		"none yet":                   {0, 0, "", "There is no certificate for *.a.example: it is being ordered."},
		"there is nothing to do yet": {90 * day, 0, "", ""},
	} {
		e := State{Domain: "a.example", Reason: c.reason}
		if c.lifetime > 0 {
			e.cert = &tls.Certificate{Leaf: &x509.Certificate{NotBefore: noon, NotAfter: noon.Add(c.lifetime)}}
		}
		e.describe(noon.Add(c.age))
		if got := e.Problem; (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
