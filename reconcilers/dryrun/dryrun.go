package dryrun

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/event"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/fork/power"
	"switchyard.dev/reconcilers/routegroup"
	"switchyard.dev/workflows/execunit"
)

// Errors that a caller can act on; test with errors.Is.
var (
	// ErrNotSupported: this version has no dry run for objects of this kind.
	ErrNotSupported = errors.New("a dry run of this kind is not supported yet")
	// ErrNoObject: the object that would be deleted does not exist.
	ErrNoObject = errors.New("there is no such object")
	// ErrInvalid: the object cannot be read, or lacks its name.
	ErrInvalid = errors.New("the object is not valid")
)

// Config has the dependencies and settings of a dry run.
type Config struct {
	// Reader reads the cluster with the rights of the caller. Required. Its scheme must include the
	// kinds of Scheme.
	Reader client.Reader
	// Client sends the object, and the Deployments, Rollouts and Services of forks, to the
	// API server, with dryRun=All and the rights of the caller. nil: only what the
	// controllers check is reported.
	Client client.Client
	// Manager is the field manager of Client's requests. Default: "switchyard-dry-run".
	Manager string
	// Namespaces are those in which the operator may work, by its configuration; empty means all.
	Namespaces []string
	// OperatorNamespace is where the operator lives; "signadot" when it is empty.
	OperatorNamespace string
	// Powers are those that patches may add, by the operator's configuration; empty means none.
	Powers power.Powers
	// Meshes are the meshes that are on. With one, Reader has to have a RESTMapper, as a client.Client
	// has.
	Meshes Meshes
	// Steps returns the settings of the pods of steps, or an error if they are unknown. nil: pods of
	// steps are not sent to the API server.
	Steps func(context.Context) (execunit.Settings, error)
	// Now returns the time of facts and of new objects; time.Now if it is nil.
	Now func() time.Time
}

// Validate returns an error if a required field is missing.
func (c Config) Validate() error {
	if c.Reader == nil {
		return errors.New("dryrun: Reader is required")
	}
	return nil
}

// operatorNamespace is where the chart puts the operator.
const operatorNamespace = "signadot"

// asker is the field manager of dry runs.
const asker = "switchyard-dry-run"

// Plan is the predicted result.
type Plan struct {
	// Statements are the facts that would be put on the routing log, in order, at most one for each
	// key: RoutingDeclared, RoutingWithdrawn, WorkloadObserved and WorkloadWithdrawn. They include
	// facts that the log already has, which it does not record again.
	Statements []event.Fact
	// Changes are the objects that would be made, changed or deleted, the one
	// that was asked about first.
	Changes []Change
	// Refusals are the objects that the API server would reject, so that the operator would never see
	// them.
	Refusals []Refusal
	// Findings are the conditions of objects that need attention. Without findings and refusals nothing
	// prevents the object from working.
	Findings []Finding
	// Unknown are sentences about checks that were not possible, and why.
	Unknown []string
}

// Refusal is an object that the API server would not take.
type Refusal struct {
	Object Object
	// Message is the message of the API server.
	Message string
}

// Action is the kind of a change of an object.
type Action string

// The actions.
const (
	Create Action = "create"
	Update Action = "update"
	Remove Action = "delete"
)

// Object names a Kubernetes object.
type Object struct {
	Kind string
	// Namespace is empty for an object of the cluster.
	Namespace string
	Name      string
}

// String returns kind and namespace/name, as messages do.
func (o Object) String() string {
	if o.Namespace == "" {
		return o.Kind + " " + o.Name
	}
	return o.Kind + " " + o.Namespace + "/" + o.Name
}

// Change is an object that would be written.
type Change struct {
	Object Object
	Action Action
}

// Finding is a condition of an object that needs the user's attention.
type Finding struct {
	// Object would have the condition.
	Object Object
	// Type and Reason are words for programs, as in conditions.
	Type, Reason string
	// Status is False for a problem, Unknown if a dry run cannot decide it, and True for a remark.
	Status string
	// Message describes the problem, the object and the remedy.
	Message string
}

// InTheWay reports whether a user has to change something before the object works. Other findings are
// remarks, or conditions that only show in a real run: readiness of sandboxes, and dependencies of a
// fork.
func (f Finding) InTheWay() bool {
	return f.Status == string(metav1.ConditionFalse) && f.Reason != routegroup.ReasonSandboxesNotReady && f.Reason != crdv1.ReasonWaitsFor
}

// Scheme returns a scheme with the kinds that a dry run reads, and sends to the API server.
func Scheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{crdv1.AddToScheme, appsv1.AddToScheme, corev1.AddToScheme, discoveryv1.AddToScheme, policyv1.AddToScheme, networkingv1.AddToScheme, authorizationv1.AddToScheme} {
		if err := add(s); err != nil {
			return nil, fmt.Errorf("make the scheme: %w", err)
		}
	}
	return s, nil
}

// Apply returns the Plan if the objects were applied, one after the other: a SignadotSandbox,
// SignadotRouteGroup, RoutingConfig, a member of any kind (crdv1.MemberKinds), or an Unstructured with
// one of these. If an object of that name exists, its spec is replaced, and the labels and annotations
// are added to the existing ones. The error is ErrNotSupported, ErrInvalid, or why the cluster cannot
// be read.
func Apply(ctx context.Context, c Config, objects ...client.Object) (Plan, error) {
	return run(ctx, c, objects, func(ctx context.Context, s *simulation, o client.Object) error {
		if ok, err := s.taken(ctx, o); !ok || err != nil {
			return err
		}
		return s.world.submit(ctx, o)
	})
}

// Delete returns the Plan if the objects were deleted, one after the other. Only kind and name count.
// The error is ErrNotSupported, ErrInvalid, ErrNoObject, or why the cluster cannot be read.
func Delete(ctx context.Context, c Config, objects ...client.Object) (Plan, error) {
	return run(ctx, c, objects, func(ctx context.Context, s *simulation, o client.Object) error {
		err := s.world.Delete(ctx, o)
		if apierrors.IsNotFound(err) {
			return fmt.Errorf("%s: %w, so nothing would change", s.world.name(o), ErrNoObject)
		}
		return err
	})
}

// run calls happen for each object in a new world, and returns the resulting Plan.
func run(ctx context.Context, c Config, objects []client.Object, happen func(context.Context, *simulation, client.Object) error) (Plan, error) {
	if err := c.Validate(); err != nil {
		return Plan{}, err
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	c.OperatorNamespace, c.Manager = cmp.Or(c.OperatorNamespace, operatorNamespace), cmp.Or(c.Manager, asker)
	scheme, err := Scheme()
	if err != nil {
		return Plan{}, err
	}
	subjects := make([]client.Object, len(objects))
	ids := make([]identity, len(objects))
	for i, o := range objects {
		subject, gvk, err := typed(scheme, o)
		if err != nil {
			return Plan{}, err
		}
		subjects[i], ids[i] = subject, identityOf(gvk.Kind, subject.GetNamespace(), subject.GetName())
	}
	s, err := newSimulation(ctx, c, scheme, c.Now())
	if err != nil {
		return Plan{}, err
	}
	for i, o := range subjects {
		if err := happen(ctx, s, o); err != nil {
			return Plan{}, err
		}
		if err := errors.Join(s.begin(ctx, ids[i]), s.settle(ctx), s.steps(ctx, ids[i])); err != nil {
			return Plan{}, fmt.Errorf("find out what %s would change: %w", ids[i].object(), err)
		}
	}
	return s.plan(ids), nil
}

// typed returns the object in its own type, and that type, if it can be asked
// about.
func typed(scheme *runtime.Scheme, object client.Object) (client.Object, schema.GroupVersionKind, error) {
	if object == nil {
		return nil, schema.GroupVersionKind{}, fmt.Errorf("%w: there is none", ErrInvalid)
	}
	gvk, err := kindOf(scheme, object)
	if err != nil {
		return nil, gvk, err
	}
	out, err := convert(scheme, gvk, object)
	if err != nil {
		return nil, gvk, fmt.Errorf("%w: %s %s: %w", ErrInvalid, gvk.Kind, object.GetName(), err)
	}
	switch namespaced := crdv1.Namespaced(gvk.Kind); {
	case out.GetName() == "":
		return nil, gvk, fmt.Errorf("%w: a %s has to have a name", ErrInvalid, gvk.Kind)
	case namespaced && out.GetNamespace() == "":
		return nil, gvk, fmt.Errorf("%w: %s %s has to have a namespace", ErrInvalid, gvk.Kind, out.GetName())
	case !namespaced:
		out.SetNamespace("")
	}
	return out, gvk, nil
}
