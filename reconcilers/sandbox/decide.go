package sandbox

import (
	"fmt"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/finding"
	"switchyard.dev/reconcilers/forkedworkload/fork"
)

// Reasons of conditions of a SignadotSandbox, beside those of its parts.
const (
	ReasonRoutingKeyTaken   = "RoutingKeyTaken"
	ReasonRoutingNotReady   = "RoutingNotReady"
	ReasonResourcesNotReady = "ResourcesNotReady"
	ReasonDeleting          = "Deleting"
)

// Decision is which parts there should be.
type Decision struct {
	// Findings are those for Accepted and ResourcesReady, as far as the spec
	// alone tells.
	Findings finding.Findings
	// Forks are the ForkedWorkloads to apply, in the order of the spec.
	Forks []*crdv1.ForkedWorkload
	// Config is the RoutingConfig to apply; nil: there should be none, or, with
	// Hold, it stays as it is.
	Config *crdv1.RoutingConfig
	// Hold keeps parts that are not wanted from being deleted.
	Hold bool
	// SurplusForks and SurplusConfigs are parts that are not wanted any more.
	SurplusForks   []*crdv1.ForkedWorkload
	SurplusConfigs []*crdv1.RoutingConfig
}

// Decide says which parts there should be for a sandbox that is not being
// deleted.
func Decide(in Input) Decision {
	d := Decision{Findings: finding.Findings{
		crdv1.ConditionAccepted:       accept(in),
		crdv1.ConditionResourcesReady: resources(in),
	}}
	switch {
	case !mayHaveParts(in):
	case !d.Findings[crdv1.ConditionResourcesReady].IsYes():
		d.Hold = true
		return d
	default:
		for _, t := range targets(in) {
			if t.accepted.IsYes() {
				d.Forks = append(d.Forks, forkFor(in, t))
			}
		}
		d.Config = configFor(in, d.Forks)
	}
	d.SurplusForks, d.SurplusConfigs = surplus(in, d)
	return d
}

// accept says whether the spec makes sense, as far as it alone tells.
func accept(in Input) finding.Finding {
	key := in.routingKey()
	if key == "" {
		return finding.No(baseline.ReasonInvalidSpec, "spec.id is empty: give the sandbox a unique id, which is its routing key")
	}
	if h := in.holder(); h.UID != in.Sandbox.UID {
		return finding.No(ReasonRoutingKeyTaken, fmt.Sprintf(
			"Routing key %q is held by %s, which is older: choose another spec.id", key, h))
	}
	if c := in.KeyConfig; c != nil && !apply.IsOwned(c, in.Sandbox.UID) {
		return finding.No(ReasonRoutingKeyTaken, fmt.Sprintf(
			"Routing key %q is held by RoutingConfig %s, which this sandbox did not make: choose another spec.id, or delete that object", key, c.Name))
	}
	for _, t := range targets(in) {
		if !t.accepted.IsYes() {
			return t.accepted
		}
	}
	return finding.Yes("Accepted", "The spec is right.")
}

// mayHaveParts says whether the sandbox has its key, without which no part of
// it could be reached.
func mayHaveParts(in Input) bool {
	free := in.KeyConfig == nil || apply.IsOwned(in.KeyConfig, in.Sandbox.UID)
	return in.routingKey() != "" && in.holder().UID == in.Sandbox.UID && free
}

// resources says whether what forks may need is made.
func resources(in Input) finding.Finding {
	if r := in.Sandbox.Spec.ManagedResources; len(r) > 0 {
		return finding.No(fork.ReasonNotSupportedYet, fmt.Sprintf(
			"Resource %q cannot be made: this version has no managed resources; remove spec.managedResources to start the forks", r[0].Name))
	}
	return finding.Yes("NoResources", "The sandbox has no resources.")
}

// surplus gives the parts that exist and are not wanted.
func surplus(in Input, d Decision) (forks []*crdv1.ForkedWorkload, configs []*crdv1.RoutingConfig) {
	wanted := map[string]bool{}
	for _, f := range d.Forks {
		wanted[f.Namespace+"/"+f.Name] = true
	}
	for i := range in.Forks {
		if f := &in.Forks[i]; !wanted[f.Namespace+"/"+f.Name] {
			forks = append(forks, f)
		}
	}
	for i := range in.Configs {
		if c := &in.Configs[i]; d.Config == nil || c.Name != d.Config.Name {
			configs = append(configs, c)
		}
	}
	return forks, configs
}
