package manager_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/tests/apiserver"
)

// told returns the events about an object, each as type, reason and message.
func (c *cluster) told(o client.Object) (out []string) {
	c.t.Helper()
	var list corev1.EventList
	if err := c.client.List(c.ctx, &list); err != nil {
		c.t.Fatal(err)
	}
	for _, e := range list.Items {
		if e.InvolvedObject.UID == o.GetUID() {
			out = append(out, e.Type+" "+e.Reason+" "+e.Message)
		}
	}
	slices.Sort(out)
	return out
}

// tells waits until there is an event about an object.
func (c *cluster) tells(o client.Object, event string) {
	c.t.Helper()
	c.eventually("it is told that "+event, func() error {
		if told := c.told(o); !slices.Contains(told, event) {
			return fmt.Errorf("the events are %q", told)
		}
		return nil
	})
}

// kubectl runs the real one as a user who may do everything.
func (c *cluster) kubectl(args ...string) string {
	c.t.Helper()
	user, err := environment.AddUser(envtest.User{Name: "reader", Groups: []string{"system:masters"}}, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	access := user.Config()
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: access.Host, CertificateAuthorityData: access.CAData}
	config.AuthInfos["c"] = &clientcmdapi.AuthInfo{ClientCertificateData: access.CertData, ClientKeyData: access.KeyData}
	config.Contexts["c"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "c"}
	config.CurrentContext = "c"
	file := filepath.Join(c.t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		c.t.Fatal(err)
	}
	command := exec.CommandContext(c.ctx, filepath.Join(apiserver.Binaries(), "kubectl"), args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+file, "HOME="+c.t.TempDir())
	out, err := command.CombinedOutput()
	if err != nil {
		c.t.Fatalf("kubectl %v: %v\n%s", args, err, out)
	}
	return string(out)
}

func TestKubectlDescribeShowsWhatHasHappened(t *testing.T) {
	const ns = "events"
	c := world(t, ns)
	stop := c.manage(manager.Config{})
	// Without a baseline, and then with one.
	s := c.sandbox("events", forkOf("events-key", ns, "one"))
	c.condition(s, crdv1.ConditionReady, "False", baseline.ReasonBaselineNotFound)
	c.served(ns, "one")
	c.available(c.forkFor(ns, "events-key"))
	c.condition(s, crdv1.ConditionReady, "True", "Ready")
	g := c.group("events", "events-group", "events", "nobody")
	c.condition(g, crdv1.ConditionReady, "False", "SandboxesNotFound")
	c.tells(s, "Normal Ready All desired workloads are available.")
	c.eventually("the group's trouble is told", func() error {
		if told := c.told(g); len(told) != 1 || !strings.HasPrefix(told[0], "Warning SandboxesNotFound There is no SignadotSandbox nobody") {
			return fmt.Errorf("the events are %q", told)
		}
		return nil
	})
	for _, kind := range []string{"sds", "sdrg"} {
		described := c.kubectl("describe", kind, "events")
		_, events, _ := strings.Cut(described, "\nEvents:")
		for _, part := range map[string][]string{
			"sds":  {"Warning  BaselineNotFound", "Normal   Ready", "switchyard", "All desired workloads are available."},
			"sdrg": {"Warning  SandboxesNotFound", "create it"},
		}[kind] {
			if !strings.Contains(events, part) {
				t.Errorf("kubectl describe %s events does not show %q:\n%s", kind, part, described)
			}
		}
	}
	// Its parts are silent: what is wrong with them stands with the sandbox.
	for _, w := range c.forks(ns) {
		if told := c.told(&w); len(told) > 0 {
			t.Errorf("the fork has events of its own: %q", told)
		}
	}

	// A manager that is started again has nothing to tell.
	before := c.told(s)
	stop()
	c.manage(manager.Config{})
	c.eventually("the routing log is whole", func() error { return c.main.LogReady() })
	edit(c, s, func(s *crdv1.SignadotSandbox) { s.Annotations = map[string]string{"looked": "at"} })
	c.quiet()
	if now := c.told(s); !slices.Equal(before, now) {
		t.Errorf("it has told %q, before %q", now, before)
	}
}

func TestAnObjectThatFlapsIsNotToldEveryTime(t *testing.T) {
	const ns = "flapping"
	c := start(t, ns)
	g := c.group("flapping", "flapping-key")
	c.condition(g, crdv1.ConditionReady, "True", "Ready")
	const times = 12
	for range times {
		edit(c, g, func(g *crdv1.SignadotRouteGroup) { g.Spec.SandboxNames = []string{"nobody"} })
		c.condition(g, crdv1.ConditionReady, "False", "SandboxesNotFound")
		edit(c, g, func(g *crdv1.SignadotRouteGroup) { g.Spec.SandboxNames = nil })
		c.condition(g, crdv1.ConditionReady, "True", "Ready")
	}
	c.eventually("both are told, as series", func() error {
		var list corev1.EventList
		if err := c.client.List(c.ctx, &list, client.InNamespace("default")); err != nil {
			return err
		}
		series := 0
		for _, e := range list.Items {
			if e.InvolvedObject.UID == g.UID && e.Series != nil {
				series++
			}
		}
		if series != 2 {
			return fmt.Errorf("there are %d series", series)
		}
		return nil
	})
	c.quiet()
	if told := c.told(g); len(told) != 2 {
		t.Errorf("the events are %q", told)
	}
	wrote := 0
	for _, w := range c.writes.list() {
		if strings.Contains(w, "/events") {
			wrote++
		}
	}
	if wrote >= times {
		t.Errorf("%d turns have cost %d requests for events", 2*times, wrote)
	}
}

func TestALongMessageIsToldAsFarAsItGoes(t *testing.T) {
	const ns = "long-events"
	c := start(t, ns)
	name := strings.Repeat("n", 200)
	g := c.group("long-events", "long-events-key", "a"+name, "b"+name, "c"+name, "d"+name, "e"+name, "f"+name)
	c.condition(g, crdv1.ConditionReady, "False", "SandboxesNotFound")
	c.eventually("it is told", func() error {
		if len(c.told(g)) == 0 {
			return errors.New("it is not")
		}
		return nil
	})
}
