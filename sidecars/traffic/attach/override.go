package attach

import (
	"switchyard.dev/sidecars/traffic/override"
	"switchyard.dev/sidecars/traffic/override/policy"
	"switchyard.dev/sidecars/traffic/proxy"
)

// overrideOf returns the override of a port of the application, as it is attached now.
func (a *Agent) overrideOf(application int32) override.Settings {
	a.mu.Lock()
	defer a.mu.Unlock()
	o := a.state.GetOverride()
	for _, t := range o.GetTargets() {
		if int32(t.GetApplication()) != application { //nolint:gosec // a port
			continue
		}
		out := override.Settings{Address: t.GetAddress(), RoutingKey: o.GetRoutingKey(), Policy: policy.Policy{ByStatus: o.GetByStatus()}}
		for _, status := range o.GetExceptStatuses() {
			out.Except = append(out.Except, int(status))
		}
		return out
	}
	return override.Settings{}
}

// overridden returns a connection to what answers for a port with an override; nil for others.
func (a *Agent) overridden(host string, application int32) (proxy.Conn, error) {
	if a.overrideOf(application).Address == "" {
		return nil, nil
	}
	c, err := a.override.Dial(host, application)
	if err != nil {
		return nil, err
	}
	return c, nil
}
