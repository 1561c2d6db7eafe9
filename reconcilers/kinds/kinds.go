// Package kinds creates the controllers of all kinds of custom resources. It is the only package that
// depends on all of them; programs that run controllers, on a cluster or in a simulation, get them from
// here.
package kinds

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/event"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/controller"
	"switchyard.dev/reconcilers/externalworkload"
	"switchyard.dev/reconcilers/fork/power"
	"switchyard.dev/reconcilers/fork/traffic"
	"switchyard.dev/reconcilers/forkedworkload"
	"switchyard.dev/reconcilers/gatewayapiroute"
	"switchyard.dev/reconcilers/istioroute"
	"switchyard.dev/reconcilers/job"
	"switchyard.dev/reconcilers/jobrunnergroup"
	"switchyard.dev/reconcilers/lifecyclemethods"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/reconcilers/policies"
	"switchyard.dev/reconcilers/publish"
	"switchyard.dev/reconcilers/resource"
	"switchyard.dev/reconcilers/routegroup"
	"switchyard.dev/reconcilers/routingconfig"
	"switchyard.dev/reconcilers/routingkey"
	"switchyard.dev/reconcilers/sandbox"
	"switchyard.dev/reconcilers/trafficcapture"
	"switchyard.dev/reconcilers/unsupported"
	"switchyard.dev/reconcilers/virtualworkload"
	"switchyard.dev/workflows/execunit"
	"switchyard.dev/workflows/grant"
	"switchyard.dev/workflows/iocontext/store"
	"switchyard.dev/workflows/jobexec/results"
	"switchyard.dev/workflows/jobpod"
)

// Config has the dependencies and settings of the controllers.
type Config struct {
	member.Needs
	// Namespaces are those in which members may be made; empty means all.
	Namespaces []string
	// OperatorNamespace is the operator's namespace, which also has objects without a namespace of
	// their own. Required.
	OperatorNamespace string
	// PatchPowers are those that patches may give a fork though its baseline has them not.
	PatchPowers power.Powers
	// AuthorsAsked: the API server checks the read rights of authors of patches (package admission).
	AuthorsAsked bool
	// Policies reads policies of optional kinds; nil: the cluster has none. PolicySettings have the
	// action where one does not apply to a fork.
	Policies       forkedworkload.Policies
	PolicySettings policies.Settings
	// Dial checks whether a fork's Services answer; nil for forkedworkload.DialTCP.
	Dial forkedworkload.Dial
	// Receipts queries the acknowledgements of routing keys; nil if they are not awaited.
	Receipts routingconfig.Receipts
	// KeyHeaders is the fact about the custom headers that carry routing keys (publish.KeyHeaders); the
	// zero Fact if none is published.
	KeyHeaders event.Fact
	// ExternalWorkloads define when a tunnel counts as connected; zero for the defaults.
	ExternalWorkloads externalworkload.Limits
	// Tunnels returns the proxy that holds a tunnel; nil if proxies are not followed.
	Tunnels externalworkload.Tunnels
	// Istio returns the reports of IstioRoutes; nil while Istio is off.
	Istio istioroute.Reports
	// GatewayAPI returns the reports of GatewayAPIRoutes; nil while the Gateway API is off.
	GatewayAPI gatewayapiroute.Reports
	// Workflows configure the units of Resources and SignadotObjectLifecycleMethods; nil if this
	// process runs none.
	Workflows *Workflows
	// Jobs configure the runners of jobs; nil if this process runs none.
	Jobs *Jobs
	// Traffic returns the settings of the container of forks that records requests, or an error while they are not known;
	// nil: new forks get none. Receivers are asked what these containers have applied. CapturesDisabled is why no capture
	// is possible; empty: captures are.
	Traffic          func() (traffic.Settings, error)
	Receivers        trafficcapture.Receivers
	CapturesDisabled string
}

// Jobs configure the runners of jobs.
type Jobs struct {
	// Pods are those of runners.
	Pods controller.Pods
	// Settings configure these pods, and Limits how long results are kept in them; CA returns the authorities that
	// they trust.
	Settings jobpod.Settings
	Limits   jobrunnergroup.Limits
	CA       func() string
	// Sign signs the records of pods.
	Sign jobrunnergroup.Signer
	// Runners reaches the runners in these pods; nil: no job runs. Finished are the limits of finished jobs.
	Runners  job.Runners
	Finished job.Limits
	// Results is the bucket for what jobs leave; nil: there is none.
	Results *results.Kept
}

// Workflows configure the units.
type Workflows struct {
	// Pods are those of units.
	Pods controller.Pods
	// Settings configure the pods of units, and their time limits; CA returns the authorities that they
	// trust.
	Settings execunit.Settings
	CA       func() string
	// AtOnce is how many units of one graph run at the same time; 0: all.
	AtOnce int
	// Sign signs the grants of pods.
	Sign grant.Signer
	// Random returns the random part of a pod's name; nil: the controller's own.
	Random func() string
	// Rand is the source of random names of output Secrets; nil: crypto/rand.
	Rand io.Reader
	// Values keeps the values of units, but for its Client.
	Values store.Store
}

// Controllers returns the controller of each of crdv1.Kinds, by the name of the kind.
func Controllers(c Config) (map[string]controller.Controller, error) {
	if err := c.validate(); err != nil {
		return nil, fmt.Errorf("make the controllers: %w", err)
	}
	headers := publish.HeadersOf(c.KeyHeaders)
	out := map[string]controller.Controller{
		crdv1.KindSandbox: controller.Of(c.Client, sandbox.New(sandbox.Config{
			Access: c.Access, Namespaces: c.Namespaces, OperatorNamespace: c.OperatorNamespace, KeyHeaders: headers,
		})),
		crdv1.KindRouteGroup: controller.Of(c.Client, routegroup.New(routegroup.Config{Access: c.Access, KeyHeaders: headers})),
		crdv1.KindForkedWorkload: controller.Of(c.Client, forkedworkload.New(forkedworkload.Config{
			Needs: c.Needs, Powers: c.PatchPowers, AuthorsAsked: c.AuthorsAsked, OperatorNamespace: c.OperatorNamespace, Dial: c.Dial,
			Policies: c.Policies, PolicySettings: c.PolicySettings, Mesh: c.Istio != nil || c.GatewayAPI != nil,
			Traffic: c.Traffic,
		})),
		crdv1.KindExternalWorkload: controller.Of(c.Client, externalworkload.New(externalworkload.Config{
			Needs: c.Needs, Limits: c.ExternalWorkloads, Namespaces: c.Namespaces, OperatorNamespace: c.OperatorNamespace, Tunnels: c.Tunnels,
		})),
		crdv1.KindVirtualWorkload: controller.Of(c.Client, virtualworkload.New(virtualworkload.Config{Needs: c.Needs})),
		crdv1.KindRoutingConfig: controller.Of(c.Client, routingconfig.New(routingconfig.Config{
			Access: c.Access, Publisher: c.Publisher, Namespaces: c.Namespaces, Receipts: c.Receipts, KeyHeaders: c.KeyHeaders, Meshes: c.meshes(),
		})),
		crdv1.KindTrafficCapture: controller.Of(c.Client, trafficcapture.New(trafficcapture.Config{
			Access: c.Access, Disabled: c.CapturesDisabled, Namespace: c.OperatorNamespace, Receivers: c.Receivers, KeyHeaders: headers, Dial: c.dial(),
		})),
		crdv1.KindIstioRoute:      controller.Of(c.Client, istioroute.New(c.Access, c.Istio)),
		crdv1.KindGatewayAPIRoute: controller.Of(c.Client, gatewayapiroute.New(c.Access, c.GatewayAPI)),
	}
	if w := c.Workflows; w != nil {
		out[crdv1.KindResource] = controller.Of(c.Client, resource.New(resource.Config{Access: c.Access, Values: c.values(), Rand: w.Rand}))
		out[crdv1.KindLifecycleMethods] = controller.Of(c.Client, lifecyclemethods.New(lifecyclemethods.Config{
			Access: c.Access, Pods: w.Pods, Settings: w.Settings, CA: w.CA, AtOnce: w.AtOnce, Sign: w.Sign, Random: w.Random, Values: c.values(),
		}))
	}
	if j := c.Jobs; j != nil {
		out[crdv1.KindJobRunnerGroup] = controller.Of(c.Client, jobrunnergroup.New(jobrunnergroup.Config{
			Access: c.Access, Pods: j.Pods, Settings: j.Settings, CA: j.CA, Limits: j.Limits, Signer: j.Sign,
		}))
		if j.Runners != nil {
			out[crdv1.KindJob] = controller.Of(c.Client, job.New(job.Config{Access: c.Access, Pods: j.Pods, Runners: j.Runners, KeyHeaders: headers, Limits: j.Finished, Results: j.Results}))
		}
	}
	for _, kind := range c.unsupported() {
		if out[kind.Name] != nil {
			return nil, fmt.Errorf("make the controllers: %s has two", kind.Name)
		}
		out[kind.Name] = unsupported.New(c.Access, kind)
	}
	for _, kind := range crdv1.Kinds() {
		if out[kind.Name] == nil {
			return nil, fmt.Errorf("make the controllers: %s has none", kind.Name)
		}
	}
	return out, nil
}

// dial returns what checks whether Services answer.
func (c Config) dial() forkedworkload.Dial {
	if c.Dial == nil {
		return forkedworkload.DialTCP
	}
	return c.Dial
}

// values returns where values of units are kept: in the operator's namespace where Workflows do not
// have it.
func (c Config) values() store.Store {
	s := c.Workflows.Values
	s.Client, s.Namespace = c.Uncached(), cmp.Or(s.Namespace, c.OperatorNamespace)
	return s
}

// unsupported returns the kinds that nothing acts on.
func (c Config) unsupported() []unsupported.Kind {
	return slices.DeleteFunc(unsupported.Kinds(), func(k unsupported.Kind) bool {
		return c.Workflows != nil && (k.Name == crdv1.KindResource || k.Name == crdv1.KindLifecycleMethods) ||
			c.Jobs != nil && (k.Name == crdv1.KindJobRunnerGroup || k.Name == crdv1.KindJob && c.Jobs.Runners != nil)
	})
}

// meshes returns the meshes that are on, by the kind of their mesh routes.
func (c Config) meshes() map[string]routingconfig.Mesh {
	out := map[string]routingconfig.Mesh{}
	if c.Istio != nil {
		out[crdv1.KindIstioRoute] = c.Istio
	}
	if c.GatewayAPI != nil {
		out[crdv1.KindGatewayAPIRoute] = c.GatewayAPI
	}
	return out
}

// validate returns an error if a required field is missing.
func (c Config) validate() error {
	if c.OperatorNamespace == "" {
		return errors.New("an OperatorNamespace is required")
	}
	return c.Needs.Validate()
}

// ControllerName names the controller of a kind in logs and metrics.
func (c Config) ControllerName(kind crdv1.Kind) string {
	name := strings.ToLower(kind.Name)
	if slices.ContainsFunc(c.unsupported(), func(k unsupported.Kind) bool { return k.Name == kind.Name }) {
		return "unsupported-" + name
	}
	return strings.TrimPrefix(name, "signadot")
}

// owned returns the kinds that controllers create and find by the UID of the owner and, after its
// deletion, by its name.
func owned() []client.Object {
	out := []client.Object{&corev1.Service{}, &appsv1.Deployment{}, &discoveryv1.EndpointSlice{}}
	for _, kind := range crdv1.MadeKinds() {
		out = append(out, kind.New())
	}
	return out
}

// AddIndexes adds every index of the cache that controllers use, each once. Call it once, before the
// cache starts. also are kinds that controllers create only with certain settings.
func AddIndexes(ctx context.Context, indexer client.FieldIndexer, also ...client.Object) error {
	var errs []error
	for _, kind := range append(owned(), also...) {
		errs = append(errs,
			indexer.IndexField(ctx, kind, apply.IndexOwner, apply.OwnerOf),
			indexer.IndexField(ctx, kind, apply.IndexMaker, apply.MakerOf))
	}
	for _, index := range []func(context.Context, client.FieldIndexer) error{
		baseline.Index, externalworkload.Index, forkedworkload.Index, routingkey.Index, routegroup.Index, routingconfig.Index, member.Index,
		job.Index,
	} {
		errs = append(errs, index(ctx, indexer))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("make the indexes of the cache: %w", err)
	}
	return nil
}

// RolloutIndexes returns the indexes of Argo Rollouts, which are in a cache of their own, by
// name.
func RolloutIndexes() map[string]client.IndexerFunc {
	return map[string]client.IndexerFunc{
		apply.IndexOwner: apply.OwnerOf, apply.IndexMaker: apply.MakerOf, baseline.IndexReferred: baseline.ByReferred,
	}
}
