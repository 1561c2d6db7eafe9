package routingconfig

import (
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"switchyard.dev/eventbus/event"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/reconcilers/publish"
	"switchyard.dev/reconcilers/routing"
	"switchyard.dev/reconcilers/routingkey"
)

// Published is the result of putting the declaration on the log.
type Published struct {
	// Pos is its place in the log.
	Pos event.Pos
	// Err is why it is not there; nil when it is.
	Err error
	// Refused is true when it never will be, however often it is tried.
	Refused bool
}

// Conclude returns the RoutingConfig with its new status. now is taken as the
// time of conditions that changed.
func Conclude(in Input, d Decision, p Published, r Receipt, now metav1.Time) *crdv1.RoutingConfig {
	c := in.Config.DeepCopy()
	c.Status.ObservedGeneration = c.Generation
	all, led := processed(in), []crdv1.RouteServerRoute(nil)
	if d.Declaration != nil {
		led = routes(in)
	}
	c.Status.ProcessedWorkloads = all[:min(len(all), listed)]
	c.Status.RouteServer = nil
	if len(led) > 0 {
		c.Status.RouteServer = &crdv1.RouteServerStatus{Routes: led[:min(len(led), listed)]}
	}
	conditions := condition.Set{
		crdv1.ConditionPublished:        published(in, d, p),
		routing.ConditionProxiesCurrent: proxies(in, d, p, r),
	}
	for _, kind := range crdv1.MeshKinds() {
		if t := routing.MeshCondition(kind.Name); in.Mesh.Has(kind.Name) {
			conditions[t] = meshRoutesReady(in, kind.Name)
		} else {
			condition.Drop(c, t)
		}
	}
	for t, f := range d.Conditions {
		conditions[t] = f
	}
	conditions[crdv1.ConditionWorkloadsFound] = unlisted(conditions[crdv1.ConditionWorkloadsFound], len(all), len(led))
	standing := maps.Clone(conditions)
	standing[baseline.ConditionSidecarsReady] = in.SidecarsReady(conditions[routing.ConditionProxiesCurrent])
	conditions[crdv1.ConditionReady] = standing.Ready(isReady(c, conditions),
		crdv1.ConditionAccepted, crdv1.ConditionWorkloadsFound, crdv1.ConditionPublished, baseline.ConditionSidecarsReady,
		routing.ConditionProxiesCurrent, routing.ConditionMiddlewaresApplied)
	condition.Write(c, conditions, now)
	return c
}

// meshRoutesReady returns the condition that the mesh routes of a kind are written and ready.
func meshRoutesReady(in Input, kind string) condition.Condition {
	if err := in.meshErrs[kind]; err != nil {
		return condition.False(ReasonMeshRoutesUnwritten(kind), fmt.Sprintf("%ss of RoutingConfig %s cannot be written: %v. Retrying.", kind, in.Config.Name, err))
	}
	return in.MeshRoutesReady(kind)
}

// listed bounds each list in the status. An object is limited to about 1.5 MB, including its spec, and
// an entry takes a few hundred bytes: with thousands of entries the API server would reject the status,
// and no problem could be reported.
const listed = 500

// unlisted appends to the condition about members how many entries the lists in the status leave out.
func unlisted(f condition.Condition, workloads, routes int) condition.Condition {
	if n := workloads - listed; n > 0 {
		f.Message += fmt.Sprintf(" status.processedWorkloads leaves out %d more.", n)
	}
	if n := routes - listed; n > 0 {
		f.Message += fmt.Sprintf(" status.routeServer.routes leaves out %d more.", n)
	}
	return f
}

// isReady returns the message of Ready when it is True: how requests are routed, and which are not.
func isReady(c *crdv1.RoutingConfig, f condition.Set) string {
	if len(c.Spec.SandboxedWorkloads) == 0 {
		return fmt.Sprintf("Routing key %q routes to no workload: requests with it reach the baselines.", c.RoutingKey())
	}
	message := fmt.Sprintf(
		"Requests with routing key %q are routed to the sandbox; while it is not ready they fail and do not reach the baseline.", c.RoutingKey())
	if contested := f[routing.ConditionNoConflicts]; contested.IsFalse() {
		message = fmt.Sprintf("Requests with routing key %q are routed, but %s", c.RoutingKey(), contested.Message)
	}
	if f[crdv1.ConditionAccepted].Reason == routingkey.ReasonWarning {
		message += " " + routingkey.Warning(c.RoutingKey())
	}
	return message
}

// published reports whether the declaration is on the log, and where.
func published(in Input, d Decision, p Published) condition.Condition {
	switch {
	case !in.carried():
		accepted := d.Conditions[crdv1.ConditionAccepted]
		return condition.False(accepted.Reason, accepted.Message)
	case d.Declaration == nil:
		return condition.False(routingkey.ReasonTaken, fmt.Sprintf("Routing key %q is declared by RoutingConfig %s.",
			in.Config.RoutingKey(), in.holder().Name))
	case p.Refused:
		return condition.False(publish.ReasonFactRefused, fmt.Sprintf(
			"The routing log refuses the declaration of %d workloads, and the previous declaration of routing key %q stays: %s. Use fewer members or middlewares in %s.",
			len(d.Declaration.GetMembers()), in.Config.RoutingKey(), publish.WhyRefused(p.Err), askedIn(in)))
	case p.Err != nil:
		return condition.False(ReasonLogUnavailable, fmt.Sprintf("The routing log cannot be written: %v. Retrying.", p.Err))
	default:
		return condition.True("Published", fmt.Sprintf("In the routing log at %s/%d.", p.Pos.Epoch, p.Pos.Seq))
	}
}

// askedIn returns the field of the owner in which users list the members.
func askedIn(in Input) string {
	switch by := routing.Owner(in.Config); by.GetKind() {
	case crdv1.KindRouteGroup:
		return "spec.sandboxNames of " + by.GetKind() + " " + by.GetName()
	case crdv1.KindSandbox:
		return "the spec of " + by.GetKind() + " " + by.GetName()
	}
	return "spec.sandboxedWorkloads"
}

// processed returns the members with a known baseline.
func processed(in Input) []crdv1.ProcessedWorkload {
	var out []crdv1.ProcessedWorkload
	for _, m := range in.Named() {
		have := in.Member(m)
		if have == nil || have.ObservedBaseline() == nil {
			continue
		}
		at, ok := have.BaselineRef()
		if !ok {
			continue
		}
		p := crdv1.ProcessedWorkload{
			Baseline: crdv1.ProcessedBaseline{
				WorkloadRef: crdv1.WorkloadRef{Kind: at.Kind, Namespace: at.Namespace, Name: at.Name},
				UID:         have.ObservedBaseline().WorkloadID,
			},
			Middlewares: m.Middlewares,
			Workload:    ref(in, m),
		}
		if info := have.RoutingInfo(); info != nil {
			p.Routes = &crdv1.ProcessedRoutes{DevMesh: &crdv1.DevMeshRouting{Enabled: info.DevMeshSidecarPresent}, Istio: in.IstioOf(have), GatewayAPI: in.GatewayAPIOf(have)}
		}
		out = append(out, p)
	}
	return out
}

// ref names a member with its sandbox.
func ref(in Input, m crdv1.SandboxedWorkload) crdv1.SandboxedWorkloadRef {
	r := m.SandboxedWorkloadRef
	r.SandboxName = in.SandboxName(m)
	return r
}

// routes returns one route for each port of each baseline Service that has a
// Service in the sandbox. A virtual workload has none: its requests stay.
func routes(in Input) []crdv1.RouteServerRoute {
	var out []crdv1.RouteServerRoute
	for _, m := range in.Named() {
		have := in.Member(m)
		if have == nil || have.RoutingInfo() == nil || m.Kind == crdv1.KindVirtualWorkload {
			continue
		}
		for _, s := range have.RoutingInfo().Services {
			for _, p := range s.Ports {
				if s.To == "" {
					continue
				}
				out = append(out, crdv1.RouteServerRoute{
					Baseline:    have.ObservedBaseline().DeepCopy(),
					SandboxName: in.SandboxName(m),
					From:        location(s.From, m.Namespace, p),
					To:          location(s.To, m.Namespace, p),
				})
			}
		}
	}
	return out
}

// location is one end of a route, by the name of its Service.
func location(service, namespace string, p crdv1.MappedPort) crdv1.RouteLocation {
	return crdv1.RouteLocation{Host: service + "." + namespace + ".svc", Port: p.Port, WorkloadPort: p.TargetPort}
}
