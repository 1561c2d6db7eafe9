package devmesh

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/tests/devmesh/configdump"
	"switchyard.dev/tests/devmesh/control"
	"switchyard.dev/tests/sidecar"
	"switchyard.dev/tools/wait"
)

// dump asks the pod's Envoy for its configuration.
func (p *pod) dump(ctx context.Context) (configdump.Reading, error) {
	text, err := sidecar.Admin(ctx, p.dir, "/config_dump")
	if err != nil {
		return configdump.Reading{}, err
	}
	return configdump.Read(text)
}

// errUnsettled: what the Envoy has and what its sidecar has acknowledged are just
// changing.
var errUnsettled = errors.New("it is changing")

// compare compares the routes of a pod's Envoy with the table at the version that its sidecar has
// acknowledged, also while that changes. It returns the differences.
func (w *world) compare(p *pod) (differences []string, rules int, err error) {
	err = wait.Until(w.ctx, control.Patience, "Envoy of "+p.name+" has what its sidecar has acknowledged", func() error {
		before, err := w.sidecar(p)
		if err != nil {
			return err
		}
		reading, err := p.dump(w.ctx)
		if err != nil {
			return err
		}
		after, err := w.sidecar(p)
		if err != nil {
			return err
		}
		if before.GetAcknowledged() != after.GetAcknowledged() || after.GetAcknowledged() != versionOf(reading) || after.GetReached() == nil {
			return fmt.Errorf("%w: Envoy has %q, acknowledged is %q, reached %v", errUnsettled, reading.Version, after.GetAcknowledged(), after.GetReached())
		}
		want, err := w.decisions(p, after.GetReached())
		if err != nil {
			return err
		}
		differences, rules = differ(p, want, reading), len(want)
		return nil
	})
	return differences, rules, err
}

// versionOf is what the sidecar's program took for the version that Envoy has: it
// counts, behind a tilde, how often it has brought one to Envoy.
func versionOf(r configdump.Reading) string {
	version, _, _ := strings.Cut(r.Version, "~")
	return version
}

// sidecar returns the route server's report of a pod's sidecar.
func (w *world) sidecar(p *pod) (*routingv1.Sidecar, error) {
	ctx, cancel := context.WithTimeout(w.ctx, 5*time.Second)
	defer cancel()
	answer, err := w.control.Routing.Sidecars(ctx, &routingv1.SidecarsRequest{})
	if err != nil {
		return nil, err
	}
	for _, s := range answer.GetSidecars() {
		if s.GetPod() == p.name {
			return s, nil
		}
	}
	return nil, fmt.Errorf("%s is not connected", p.name)
}

// decisions reads the table as it was at a position, for a pod's workload: a rule
// has a decision for each of its ports.
func (w *world) decisions(p *pod, at *routingv1.Position) (map[configdump.Match]configdump.Decision, error) {
	ctx, cancel := context.WithTimeout(w.ctx, 10*time.Second)
	defer cancel()
	all := map[configdump.Match]configdump.Decision{}
	for token := ""; ; {
		page, err := w.control.Routing.GetTable(ctx, &routingv1.GetTableRequest{
			At:     &routingv1.At{Version: &routingv1.At_Position{Position: at}},
			Filter: &routingv1.Filter{Kind: p.workload.Kind, Namespace: p.workload.Namespace, Name: p.workload.Name}, PageToken: token,
		})
		if err != nil {
			return nil, err
		}
		for _, rule := range page.GetRules() {
			for _, m := range rule.GetMappings() {
				all[configdump.Match{Port: m.GetWorkloadPort(), Key: rule.GetRoutingKey()}] = decisionOf(rule, m)
			}
		}
		if token = page.GetNextPageToken(); token == "" {
			return all, nil
		}
	}
}

// decisionOf returns what the design has for a rule's port: the first destination
// with an address, or a refusal. Never the baseline.
func decisionOf(rule *routingv1.Rule, m *routingv1.Mapping) configdump.Decision {
	d := configdump.Decision{Name: "sandbox=" + printable(rule.GetSandbox())}
	if !rule.GetReady() {
		d.Refusal = "sandbox-not-ready"
		return d
	}
	for _, to := range m.GetDestinations() {
		if _, err := netip.ParseAddr(to.GetAddress()); err == nil {
			d.Fork = net.JoinHostPort(to.GetAddress(), strconv.Itoa(int(to.GetPort())))
			return d
		}
	}
	d.Refusal = "sandbox-has-no-address"
	return d
}

// printable writes a name as answers do: printable ASCII as it is, but for the per
// cent sign, and all other bytes as in a URL.
func printable(name string) string {
	var out strings.Builder
	for _, b := range []byte(name) {
		if b == '%' || b < 0x20 || b >= 0x7f {
			out.WriteString("%" + strings.ToUpper(strconv.FormatUint(0x100+uint64(b), 16)[1:]))
			continue
		}
		out.WriteByte(b)
	}
	return out.String()
}

// differ returns where an Envoy does anything else than it is to do.
func differ(p *pod, want map[configdump.Match]configdump.Decision, got configdump.Reading) (differences []string) {
	say := func(format string, values ...any) {
		differences = append(differences, p.name+": "+fmt.Sprintf(format, values...))
	}
	if !got.Otherwise.Baseline {
		say("requests without a rule are routed to %+v", got.Otherwise)
	}
	for match, decision := range want {
		switch has, ok := got.Decisions[match]; {
		case !ok:
			say("%+v is missing, want %+v", match, decision)
		case has != decision:
			say("%+v is routed to %+v, want %+v", match, has, decision)
		}
	}
	for match, decision := range got.Decisions {
		if _, ok := want[match]; !ok {
			say("%+v is routed to %+v, but there is no rule", match, decision)
		}
	}
	// The key must come out of the headers that clients send.
	for match, decision := range want {
		for header, value := range carriers(match.Key) {
			lines := func(name string) []string {
				if strings.EqualFold(name, header) {
					return []string{value}
				}
				return nil
			}
			if has := got.Of(match.Port, lines); has != decision {
				say("port %d, %s: %q is routed to %+v, want %+v", match.Port, header, value, has, decision)
			}
		}
	}
	if has := got.Of(workloadPort, func(string) []string { return nil }); !has.Baseline {
		say("a request without a key is routed to %+v", has)
	}
	slices.Sort(differences)
	return differences
}

// carriers returns the headers that can carry a key, with it in them.
func carriers(key string) map[string]string {
	all := map[string]string{}
	if strings.Trim(key, " \t") != key {
		return all // white space at the ends belongs to the header
	}
	if !strings.Contains(key, ",") {
		all[customHeader] = key
		all["tracestate"] = "vendor=1, sd-routing-key=" + key + ",other=2"
	}
	if !strings.ContainsAny(key, ",;") {
		all["baggage"] = "userId=alice, sd-routing-key = " + key + " ;ttl=1,other=2"
	}
	return all
}
