package cli

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	routingv1 "switchyard.dev/protos/gen/routing/v1"
)

func TestVersionsAsPeopleWriteThem(t *testing.T) {
	zone := time.FixedZone("CET", 3600)
	a := &app{Config: Config{Zone: zone, Now: func() time.Time { return time.Date(2026, 11, 20, 15, 30, 0, 0, zone) }}}
	position := func(epoch string, seq uint64) *routingv1.At {
		return &routingv1.At{Version: &routingv1.At_Position{Position: &routingv1.Position{Epoch: epoch, Sequence: seq}}}
	}
	moment := func(day, hour, minute, second int) *routingv1.At {
		at := time.Date(2026, 11, day, hour, minute, second, 0, zone)
		return &routingv1.At{Version: &routingv1.At_Time{Time: timestamppb.New(at)}}
	}
	for text, want := range map[string]*routingv1.At{
		"":                          nil,
		"now":                       {Version: &routingv1.At_Fresh{Fresh: true}},
		"12":                        position("", 12),
		"4y2k/12":                   position("4y2k", 12),
		"2026-11-20T14:03:00Z":      moment(20, 15, 3, 0),
		"2026-11-20T14:03:00+01:00": moment(20, 14, 3, 0),
		"14:03":                     moment(20, 14, 3, 0),
		"14:03:07":                  moment(20, 14, 3, 7),
		"15:31":                     moment(19, 15, 31, 0), // not yet today
		"15m":                       moment(20, 15, 15, 0),
		"2h30m":                     moment(20, 13, 0, 0),
		"1d":                        moment(19, 15, 30, 0),
		"1d2h":                      moment(19, 13, 30, 0),
	} {
		got, err := a.at(text)
		if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" || err != nil {
			t.Errorf("%q: %v (-want +got)\n%s", text, err, diff)
		}
	}
	for _, text := range []string{"/12", "a/b", "a/", "-15m", "-3", "25:00", "d", "yesterday", "1d-2h", "2026-11-20"} {
		if got, err := a.at(text); codeOf(err) != ExitUsage {
			t.Errorf("%q is read as %v, %v", text, got, err)
		}
	}
}

func TestAgesAreInTheUnitThatFits(t *testing.T) {
	now := time.Date(2026, 11, 20, 15, 30, 0, 0, time.UTC)
	a := &app{Config: Config{Now: func() time.Time { return now }}}
	for ago, want := range map[time.Duration]string{
		-time.Second: "0s", 90 * time.Second: "90s", 3 * time.Minute: "3m", 119 * time.Minute: "119m", 5 * time.Hour: "5h", 47 * time.Hour: "47h", 49 * time.Hour: "2d",
	} {
		if got := a.age(timestamppb.New(now.Add(-ago))); got != want {
			t.Errorf("%s ago is %q, want %q", ago, got, want)
		}
	}
}

func TestTextThatATerminalWouldObeyIsEscaped(t *testing.T) {
	for text, want := range map[string]string{
		"über 50% <b>\nline": "über 50% <b>\nline", "\x1b[31m": `\u001b[31m`, "a\xffb": `a\xffb`, "\u202e": `\u202e`, "tab\t": `tab\u0009`,
	} {
		if got := plain(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
	m := forPeople(&routingv1.Change{RoutingKey: "a\nb", Old: &routingv1.Rule{Sandbox: "\x1b", Mappings: []*routingv1.Mapping{{Destinations: []*routingv1.Destination{{Host: "\x07"}}}}}})
	if m.GetRoutingKey() != `a\nb` || m.GetOld().GetSandbox() != `\u001b` || m.GetOld().GetMappings()[0].GetDestinations()[0].GetHost() != `\u0007` {
		t.Errorf("got %v", m)
	}
}

func TestColoursAreForTerminals(t *testing.T) {
	for name, c := range map[string]struct {
		terminal, noColor bool
		env               string
		want              string
	}{
		"a terminal":               {true, false, "", green + "x" + off},
		"a pipe":                   {false, false, "", "x"},
		"a terminal, not wanted":   {true, true, "", "x"},
		"a terminal with NO_COLOR": {true, false, "1", "x"},
	} {
		a := &app{Config: Config{Terminal: c.terminal, Getenv: func(string) string { return c.env }}, flags: flags{noColor: c.noColor}}
		if got := a.paint(green, "x"); got != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}
