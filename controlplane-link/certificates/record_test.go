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
			if now := noon.Add(time.Duration(minute) * time.Minute); r.due(now, "s", true) {
				orders[minute/24/60]++
				r = r.leased("a", now).faulted(now, "s", errors.New("refused"), 0)
			}
		}
		if orders[0] < 3 || orders[0] > 4 || orders[1] < 1 || orders[1] > 2 || orders[2] < 1 || orders[2] > 2 {
			t.Fatalf("orders of three days: %v", orders)
		}
	}
}

// TestChangedSettingsAreTriedAtOnce, but not without bound: replicas can have different ones.
func TestChangedSettingsAreTriedAtOnce(t *testing.T) {
	var r record
	orders := 0
	for range 20 {
		for _, settings := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
			if r.due(noon, settings, true) {
				orders++
				r = r.faulted(noon, settings, errors.New("refused"), 0)
			}
		}
	}
	if orders != mostTried {
		t.Errorf("%d orders at once, want %d", orders, mostTried)
	}
}

func TestDue(t *testing.T) {
	failed := record{}.faulted(noon, "s", errors.New("two\nlines"), 48*time.Hour)
	if failed.Reason != "two lines" || failed.Failures != 1 || failed.Next.Before(noon.Add(48*time.Hour)) {
		t.Errorf("%+v", failed)
	}
	for name, c := range map[string]struct {
		r    record
		at   time.Duration
		due  bool
		want bool
	}{
		"renewal is not due":         {record{}, 0, false, false},
		"first":                      {record{}, 0, true, true},
		"another replica orders":     {record{}.leased("b", noon), leaseFor - 1, true, false},
		"the lease has ended":        {record{}.leased("b", noon), leaseFor, true, true},
		"an order was interrupted":   {record{}.leased("b", noon).released(), 0, true, true},
		"the server asked to wait":   {failed, 47 * time.Hour, true, false},
		"a success, and due again":   {failed.succeeded(noon, nil, nil), time.Hour - 1, true, false},
		"an hour later":              {failed.succeeded(noon, nil, nil), time.Hour, true, true},
		"that long":                  {failed, 48 * time.Hour, true, true},
		"another failed, and orders": {failed.leased("b", noon.Add(48*time.Hour)), 48 * time.Hour, true, false},
	} {
		if got := c.r.due(noon.Add(c.at), "s", c.due); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
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
		"there is nothing to do yet": {90 * day, 0, "", ""},
	} {
		e := entry{State: State{Domain: "a.example", Reason: c.reason}}
		if c.lifetime > 0 {
			e.cert = &tls.Certificate{Leaf: &x509.Certificate{NotBefore: noon, NotAfter: noon.Add(c.lifetime)}}
		}
		e.describe(noon.Add(c.age))
		if got := e.Problem; (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
