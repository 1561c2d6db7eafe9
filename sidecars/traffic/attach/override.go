package attach

import (
	"slices"

	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
	"switchyard.dev/sidecars/traffic/override"
	"switchyard.dev/sidecars/traffic/override/policy"
	"switchyard.dev/sidecars/traffic/proxy"
	"switchyard.dev/sidecars/traffic/record"
)

// overrideOf returns the override of requests with a key to a port of the application, as it is attached now.
func (a *Agent) overrideOf(application int32, key string) override.Settings {
	return a.firstOverride(application, func(o *trafficv1.Override) bool { return record.Keyed(o, key) })
}

func (a *Agent) firstOverride(application int32, is func(*trafficv1.Override) bool) override.Settings {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, o := range append(slices.Clone(a.state.GetRestricted()), a.state.GetOverride()) {
		for _, t := range o.GetTargets() {
			if int32(t.GetApplication()) != application || !is(o) { //nolint:gosec // a port
				continue
			}
			out := override.Settings{Address: t.GetAddress(), Keys: append([]string{o.GetRoutingKey()}, o.GetOtherKeys()...), Policy: policy.Policy{ByStatus: o.GetByStatus()}}
			for _, status := range o.GetExceptStatuses() {
				out.Except = append(out.Except, int(status))
			}
			return out
		}
	}
	return override.Settings{}
}

// overridden returns a connection to what answers for a port with an override of some requests; nil for others.
func (a *Agent) overridden(host string, application int32) (proxy.Conn, error) {
	if a.firstOverride(application, func(*trafficv1.Override) bool { return true }).Address == "" {
		return nil, nil
	}
	c, err := a.override.Dial(host, application)
	if err != nil {
		return nil, err
	}
	return c, nil
}
