package status

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestARefusalIsWrittenOnceForEachHost(t *testing.T) {
	var out strings.Builder
	note := Refusals(&out)
	for range 3 {
		note("route", 8083, errors.New("The cluster knows no name route"))
		note("cart\x1b[31m", 80, errors.New("no"))
	}
	want := "note: route:8083 is not reached through the tunnel: The cluster knows no name route\n"
	if got := out.String(); !strings.HasPrefix(got, want) || strings.Count(got, "\n") != 2 || strings.Contains(got, "\x1b") {
		t.Errorf("it wrote %q", got)
	}
}

func TestTheRateOfRefusalsIsLimited(t *testing.T) {
	var out strings.Builder
	note := Refusals(&out)
	for i := range 100_000 {
		note(fmt.Sprint("host-", i), 80, errors.New("no"))
	}
	if n := strings.Count(out.String(), "\n"); n < atOnce || n > 1000 {
		t.Errorf("%d lines", n)
	}
}
