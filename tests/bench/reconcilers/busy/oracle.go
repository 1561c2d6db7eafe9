package busy

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/routeserver/table"
)

// seen are the objects that the manager made, by their owner.
type seen struct {
	sandboxes   map[string]*crdv1.SignadotSandbox
	forks       map[string]*crdv1.ForkedWorkload // by sandbox and baseline
	deployments map[string]*appsv1.Deployment    // by namespace and name
	services    map[string]*corev1.Service       // by namespace and name
	configs     int
	// made is how many Deployments and Services are of forks.
	madeDeployments, madeServices int
	table                         table.Table
}

// lookAround reads what this process sees, from memory.
func (c *cluster) lookAround(ctx context.Context) (seen, error) {
	s := seen{sandboxes: map[string]*crdv1.SignadotSandbox{}, forks: map[string]*crdv1.ForkedWorkload{},
		deployments: map[string]*appsv1.Deployment{}, services: map[string]*corev1.Service{}}
	s.table, _ = c.table.Current()
	sandboxes, forks, configs := &crdv1.SignadotSandboxList{}, &crdv1.ForkedWorkloadList{}, &crdv1.RoutingConfigList{}
	deployments, services := &appsv1.DeploymentList{}, &corev1.ServiceList{}
	for _, list := range []client.ObjectList{sandboxes, forks, configs, deployments, services} {
		if err := c.seen.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return s, err
		}
	}
	s.configs = len(configs.Items)
	for i := range sandboxes.Items {
		s.sandboxes[sandboxes.Items[i].Name] = &sandboxes.Items[i]
	}
	for i := range forks.Items {
		w := &forks.Items[i]
		s.forks[w.Annotations[crdv1.AnnotationRoutingKey]+" "+w.Namespace+"/"+w.Spec.Baseline.Name] = w
	}
	for i := range deployments.Items {
		s.madeDeployments += keep(s.deployments, &deployments.Items[i])
	}
	for i := range services.Items {
		s.madeServices += keep(s.services, &services.Items[i])
	}
	return s, nil
}

// keep keeps an object by its namespace and name, and returns 1 if it is of a fork.
func keep[O client.Object](all map[string]O, o O) int {
	all[o.GetNamespace()+"/"+o.GetName()] = o
	if o.GetLabels()[crdv1.LabelForkedWorkload] != "" {
		return 1
	}
	return 0
}

// Agree returns an object that does not agree with the wanted state; nil when all do.
func (p *Play) Agree(ctx context.Context) error {
	c := p.cluster
	s, err := c.lookAround(ctx)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, want := range c.sandboxes {
		if err := s.sandbox(want); err != nil {
			return fmt.Errorf("sandbox %s: %w", want.name, err)
		}
	}
	forks, services := c.forkCount()
	for _, count := range []struct {
		what       string
		have, want int
	}{
		{"sandboxes", len(s.sandboxes), len(c.sandboxes)}, {"RoutingConfigs", s.configs, len(c.sandboxes)},
		{"ForkedWorkloads", len(s.forks), forks}, {"Deployments of forks", s.madeDeployments, forks},
		{"Services of forks", s.madeServices, services}, {"rules", s.table.Len(), forks},
	} {
		if count.have != count.want {
			return fmt.Errorf("there are %d %s instead of %d", count.have, count.what, count.want)
		}
	}
	return nil
}

// sandbox returns an error for the first difference of a sandbox from its desired state.
func (s seen) sandbox(want *sandbox) error {
	have := s.sandboxes[want.name]
	if have == nil || have.UID != want.uid || have.Generation < want.generation {
		return fmt.Errorf("it has not been seen in generation %d", want.generation)
	}
	if !crdv1.IsTrue(have.Status.Conditions, crdv1.ConditionReady, have.Generation) || have.Status.ObservedGeneration != have.Generation {
		return fmt.Errorf("it is not ready: %+v", crdv1.FindCondition(have.Status.Conditions, crdv1.ConditionReady))
	}
	for _, f := range want.forks {
		if err := s.fork(want, f); err != nil {
			return fmt.Errorf("the fork of %s/%s: %w", f.baseline.namespace, f.baseline.name, err)
		}
	}
	return nil
}

// fork returns an error for the first difference of a fork from its desired state.
func (s seen) fork(of *sandbox, want *forked) error {
	b := want.baseline
	w := s.forks[of.name+" "+b.namespace+"/"+b.name]
	if w == nil || w.Status.Fork == nil {
		return errors.New("there is none")
	}
	d := s.deployments[w.Namespace+"/"+w.Status.Fork.ObjectRef.Name]
	if d == nil || d.Status.ObservedGeneration != d.Generation || d.Status.AvailableReplicas != 1 {
		return errors.New("its Deployment is not available")
	}
	b.mu.Lock()
	beside, services := b.image(besideContainer), b.services()
	b.mu.Unlock()
	for _, c := range d.Spec.Template.Spec.Containers {
		if image := map[string]string{mainContainer: want.image(), besideContainer: beside}[c.Name]; c.Image != image {
			return fmt.Errorf("container %s runs %s instead of %s", c.Name, c.Image, image)
		}
	}
	rule, ok := s.table.Lookup(table.Workload{Kind: "Deployment", Namespace: b.namespace, Name: b.name}, of.name)
	if !ok || !rule.Ready {
		return errors.New("no rule routes there, or it is not ready")
	}
	return s.reached(w, rule, services)
}

// reached returns an error for a port of a baseline's Services that is not routed to the fork.
func (s seen) reached(w *crdv1.ForkedWorkload, rule *table.Rule, of []*corev1.Service) error {
	leads := map[string]bool{}
	for _, m := range rule.Mappings {
		for _, d := range m.Destinations {
			leads[fmt.Sprintf("%s:%d", d.Address, d.Port)] = true
		}
	}
	for _, from := range of {
		var to *corev1.Service
		for _, pair := range w.Status.RoutingConfig.Services {
			if pair.From == from.Name {
				to = s.services[w.Namespace+"/"+pair.To]
			}
		}
		if to == nil || len(to.Spec.Ports) != len(from.Spec.Ports) {
			return fmt.Errorf("the Service that replaces %s is missing, or has other ports", from.Name)
		}
		for _, p := range from.Spec.Ports {
			if !leads[fmt.Sprintf("%s:%d", to.Spec.ClusterIP, p.Port)] {
				return fmt.Errorf("no rule routes to port %d of Service %s", p.Port, to.Name)
			}
		}
	}
	return nil
}
