package show

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	routingv1 "switchyard.dev/protos/gen/routing/v1"
)

func TestAgesAreInTheUnitThatFits(t *testing.T) {
	now := time.Date(2026, 11, 20, 15, 30, 0, 0, time.UTC)
	p := &Printer{Now: func() time.Time { return now }}
	for ago, want := range map[time.Duration]string{
		-time.Second: "0s", 90 * time.Second: "90s", 3 * time.Minute: "3m", 119 * time.Minute: "119m", 5 * time.Hour: "5h", 47 * time.Hour: "47h", 49 * time.Hour: "2d",
	} {
		if got := p.age(timestamppb.New(now.Add(-ago))); got != want {
			t.Errorf("%s ago is %q, want %q", ago, got, want)
		}
	}
}

func TestTextThatATerminalWouldObeyIsEscaped(t *testing.T) {
	for text, want := range map[string]string{
		"über 50% <b>\nline": "über 50% <b>\nline", "\x1b[31m": `\u001b[31m`, "a\xffb": `a\xffb`, "\u202e": `\u202e`, "tab\t": `tab\u0009`,
	} {
		if got := Plain(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
	m := ForPeople(&routingv1.Change{RoutingKey: "a\nb", Old: &routingv1.Rule{Sandbox: "\x1b", Mappings: []*routingv1.Mapping{{Destinations: []*routingv1.Destination{{Host: "\x07"}}}}}})
	if m.GetRoutingKey() != `a\nb` || m.GetOld().GetSandbox() != `\u001b` || m.GetOld().GetMappings()[0].GetDestinations()[0].GetHost() != `\u0007` {
		t.Errorf("got %v", m)
	}
}

func TestALineOfALogKeepsTabsAndLosesColours(t *testing.T) {
	for line, want := range map[string]string{
		"a\tb\n": "a\tb\n", "no end": "no end", "\x1b[1;31mred\x1b[0m\x1b[38:5:1m x\n": "red x\n", "dos\r\n": "dos\n", "over\rwritten\n": "over\\u000dwritten\n",
		"\x1b[2J\x1b[31": `\u001b[2J\u001b[31`, "\u009b31m\a\n": `\u009b31m\u0007` + "\n", "\n": "\n", "": "",
	} {
		if got := LogLine(line); got != want {
			t.Errorf("%q is shown as %q, want %q", line, got, want)
		}
	}
}
