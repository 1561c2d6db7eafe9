package manager

import (
	"cmp"
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	crcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/clusterconfig"
	"switchyard.dev/reconcilers/kinds"
	"switchyard.dev/sidecars/inject"
	"switchyard.dev/workflows/execunit"
	"switchyard.dev/workflows/grant"
	"switchyard.dev/workflows/iocontext/store"
)

// Workflows are the settings of Resource units.
type Workflows struct {
	// Settings have the pod template and timeouts of units. The manager adds its namespaces and the CAs
	// that pods trust.
	Settings execunit.Settings
	// AtOnce is the maximum number of units of one graph that run at the same time.
	AtOnce int
	// Sign signs the grants of pods. Default: the authority that the manager keeps, which it has
	// unless it runs without the webhook.
	Sign grant.Signer
}

// Enabled reports whether units run at all: they do where the images of the managers of their
// inputs and outputs are known.
func (w Workflows) Enabled() bool { return w.Settings.InitImage != "" }

// Validate returns an error if required settings are missing.
func (w Workflows) Validate() error {
	if w.Enabled() && (w.Settings.SidecarImage == "" || w.Settings.Address == "") {
		return errors.New("manager: units of Resources need the images of both io-init and io-sidecar, and the address of the IO context server")
	}
	return nil
}

// ioContextServer is where the chart has the IO context server.
const ioContextServer = "https://io-context-server." + operatorNamespace + ".svc:8443"

// workflowsFromEnv reads the images of the managers of inputs and outputs, their pull settings
// and resources, from the variables that the chart sets (IO_INIT_IMAGE, IO_SIDECAR_IMAGE and
// their kin). Without images no unit runs.
func workflowsFromEnv(get func(string) string) (Workflows, error) {
	first, err := inject.ContainerFromEnv(get, "IO_INIT", "IO_INIT_CONTAINER_RESOURCES")
	if err != nil {
		return Workflows{}, err
	}
	second, err := inject.ContainerFromEnv(get, "IO_SIDECAR", "IO_SIDECAR_CONTAINER_RESOURCES")
	if err != nil {
		return Workflows{}, err
	}
	w := Workflows{Settings: execunit.Settings{
		InitImage: first.Image, InitPullPolicy: first.PullPolicy, InitResources: first.Resources,
		SidecarImage: second.Image, SidecarPullPolicy: second.PullPolicy, SidecarResources: second.Resources,
		Address: ioContextServer, PullSecrets: pullSecrets(first, second),
	}}
	return w, w.Validate()
}

// within returns the settings of units, completed from the operator's configuration.
func (w Workflows) within(c clusterconfig.Cluster) Workflows {
	w.AtOnce, w.Settings.Deadline = cmp.Or(c.Units.AtOnce, parallelUnits), cmp.Or(c.Units.Deadline, unitDeadline)
	w.Settings.Allow, w.Settings.AuthorAsked = c.Units.Allow, c.AskAuthors
	return w
}

// StepSettings returns the pod template of steps for a manager with this environment, in the operator's
// namespace, and this configuration.
func StepSettings(getenv func(string) string, operator string, c clusterconfig.Cluster) (execunit.Settings, error) {
	w, err := workflowsFromEnv(getenv)
	if err != nil {
		return execunit.Settings{}, err
	}
	if !w.Enabled() {
		return execunit.Settings{}, errors.New("this operator does not run steps of resources")
	}
	s := w.within(c).Settings
	s.OperatorNamespace, s.Namespaces = operator, c.AllowedNamespaces
	return s, nil
}

// Defaults of the operator's configuration, as in the chart.
const unitDeadline, parallelUnits = 30 * time.Minute, 10

// addWorkflows has the controllers run units.
func (m *Main) addWorkflows(c *kinds.Config) error {
	w := m.config.Workflows
	if !w.Enabled() {
		return nil
	}
	held, err := m.podsWith(crdv1.LabelLifecycle, "units")
	if err != nil {
		return err
	}
	w.Settings.OperatorNamespace, w.Settings.Namespaces = m.config.Namespace, m.config.Namespaces
	c.Workflows = &kinds.Workflows{Pods: held, Settings: w.Settings, AtOnce: w.AtOnce, Sign: w.Sign, Values: m.values()}
	if w.Sign == nil {
		c.Workflows.Sign = func(message []byte) ([]byte, error) { return m.injector.Sign(message) }
	}
	if m.config.Trust != nil {
		c.Workflows.CA = m.config.Trust.PEM
	}
	return m.addOrphans()
}

// retryOrphans is the delay before another attempt to delete values of deleted objects.
const retryOrphans = 30 * time.Second

// addOrphans deletes, once on the leader, values of objects that an earlier release deleted after a rollback.
func (m *Main) addOrphans() error {
	values, err := store.Open(m.config.REST, m.values().Namespace)
	if err != nil {
		return err
	}
	values.Earlier = m.values().Earlier
	m.add("what deletes values of deleted objects", onLeader(func(ctx context.Context) error {
		_ = wait.PollUntilContextCancel(ctx, retryOrphans, true, func(ctx context.Context) (bool, error) {
			err := values.DeleteOrphans(ctx)
			if err != nil && ctx.Err() == nil {
				m.config.Logger.Warn("values of deleted objects are not deleted; retrying", "error", err)
			}
			return err == nil, nil
		})
		return nil
	}))
	return nil
}

// values returns where values of units are kept, but for the client.
func (m *Main) values() store.Store {
	s := store.Store{Namespace: cmp.Or(m.config.ValuesNamespace, m.config.Namespace)}
	if !m.began.Current() {
		s.Earlier = m.config.Namespace
	}
	return s
}

// labeledPods are the pods with a label, as controllers want them.
type labeledPods struct{ crcache.Cache }

// GetCache returns the cache, so that controller-runtime starts it on every replica and waits for it
// before it starts controllers. Otherwise only the leader would start it, and the other replicas would
// exit after two minutes.
func (u labeledPods) GetCache() crcache.Cache { return u.Cache }

// Source implements controller.Pods.
func (u labeledPods) Source(h handler.EventHandler) source.Source {
	return source.Kind[client.Object](u.Cache, &corev1.Pod{}, h)
}
