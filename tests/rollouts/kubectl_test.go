package rollouts_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/forkedworkload"
	"switchyard.dev/tests/apiserver"
	"switchyard.dev/tests/world"
)

// workload is a baseline and its fork, on which people work with kubectl.
type workload struct {
	*cluster
	kind schema.GroupVersionKind
	// name is that of the baseline, base and fork are what kubectl calls the two.
	name, base, fork string
	forked           *crdv1.ForkedWorkload
}

// work makes a baseline of a kind and a fork of it, with merge patches, that is ready.
func (c *cluster) work(t *testing.T, kind schema.GroupVersionKind, name string, patches ...string) *workload {
	t.Helper()
	inner := *c
	inner.World = c.In(t)
	w := &workload{cluster: &inner, kind: kind, name: name}
	version, kindName := kind.ToAPIVersionAndKind()
	w.create(`
apiVersion: ` + version + `
kind: ` + kindName + `
metadata: {name: ` + name + `, namespace: ` + namespace + `, labels: {app: ` + name + `}}
spec:
  replicas: 1
  selector: {matchLabels: {app: ` + name + `}}
  template:
    metadata: {labels: {app: ` + name + `}}
    spec: {containers: [{name: main, image: "shop:1"}]}
`)
	w.forked = w.forkOf(kind, name, name, patches...)
	w.Condition(w.forked, crdv1.ConditionReady, "True", "Ready")
	resource := strings.ToLower(kind.GroupKind().String()) + "/"
	w.base, w.fork = resource+name, resource+w.forked.Status.Fork.ObjectRef.Name
	return w
}

// shell runs a command as a person would who has kubectl.
func (w *workload) shell(command string) {
	w.Helper()
	cmd := exec.Command("sh", "-c", command)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+w.Kubeconfig, "HOME="+w.TempDir(), "PATH="+apiserver.Binaries()+":"+os.Getenv("PATH"))
	if said, err := cmd.CombinedOutput(); err != nil {
		w.Fatalf("%s: %v\n%s", command, err, said)
	}
}

// kubectl runs kubectl in the namespace.
func (w *workload) kubectl(format string, args ...any) {
	w.Helper()
	w.shell("kubectl -n " + namespace + " " + fmt.Sprintf(format, args...))
}

// read returns the baseline or the fork as it is now.
func (w *workload) read(reference string) *unstructured.Unstructured {
	w.Helper()
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(w.kind)
	w.get(u, reference[strings.LastIndexByte(reference, '/')+1:])
	return u
}

// changes gives the baseline another image, and waits until the fork has it and is ready.
func (w *workload) changes(image string) {
	w.Helper()
	w.setBase(image)
	w.follows(image)
}

// setBase gives the baseline another image.
func (w *workload) setBase(image string) {
	w.Helper()
	world.Edit(w.World, w.read(w.base), func(u *unstructured.Unstructured) { setImage(u, image) })
}

// follows waits until the fork has an image and is ready.
func (w *workload) follows(image string) {
	w.Helper()
	w.Eventually("the fork follows its baseline to "+image, func() error {
		fork := &unstructured.Unstructured{} // It may just be made anew.
		fork.SetGroupVersionKind(w.kind)
		key := client.ObjectKey{Namespace: namespace, Name: w.forked.Status.Fork.ObjectRef.Name}
		if err := w.Client.Get(w.Context(), key, fork); err != nil || imageOf(fork) != image {
			return fmt.Errorf("it has %s (%w); %+v", imageOf(fork), err, crdv1.FindCondition(w.forked.Status.Conditions, crdv1.ConditionForkAvailable))
		}
		return nil
	})
	w.Condition(w.forked, crdv1.ConditionReady, "True", "Ready")
}

// ends runs the command that a message gives after the words, and waits until the fork is
// ready and has the image.
func (w *workload) ends(message, words, image string) {
	w.Helper()
	_, command, found := strings.Cut(message, words)
	if !found {
		w.Fatalf("no command after %q in %q", words, message)
	}
	w.shell(command)
	w.follows(image)
}

// restarted returns when kubectl rollout restart was last asked to restart a workload.
func restarted(u *unstructured.Unstructured) string {
	at, _, _ := unstructured.NestedString(u.Object, "spec", "template", "metadata", "annotations", "kubectl.kubernetes.io/restartedAt")
	return at
}

func replicasOf(u *unstructured.Unstructured) int64 {
	n, _, _ := unstructured.NestedInt64(u.Object, "spec", "replicas")
	return n
}

// TestPeopleWorkOnAForkOfADeployment does to forks what people do with kubectl. kubectl
// rollout restart and pause send a strategic merge patch as field manager
// kubectl-rollout, kubectl scale writes the scale subresource as kubectl, kubectl apply
// notes what it applied as kubectl-client-side-apply. Each takes the fields over.
func TestPeopleWorkOnAForkOfADeployment(t *testing.T) {
	c := start(t)
	kind := appsv1.SchemeGroupVersion.WithKind(baseline.KindDeployment)
	t.Run("restart of the fork, then of the baseline", func(t *testing.T) {
		w := c.work(t, kind, "fork-first")
		w.kubectl("rollout restart %s", w.fork)
		w.Eventually("another second begins: kubectl notes no less", func() error {
			if now := time.Now().Format(time.RFC3339); now == restarted(w.read(w.fork)) {
				return errors.New("it is the same")
			}
			return nil
		})
		w.kubectl("rollout restart %s", w.base)
		w.changes("shop:2")
	})
	t.Run("restart of the baseline, then of the fork", func(t *testing.T) {
		w := c.work(t, kind, "baseline-first")
		before := w.read(w.fork).GetGeneration()
		w.kubectl("rollout restart %s", w.base)
		w.Eventually("the restart of the baseline is seen", func() error {
			w.get(w.forked, w.forked.Name)
			if seen, is := w.forked.Status.Baseline.Generation, w.read(w.base).GetGeneration(); seen != is {
				return fmt.Errorf("generation %d, not %d", seen, is)
			}
			return nil
		})
		if after := w.read(w.fork); after.GetGeneration() != before || restarted(after) != "" {
			t.Errorf("the restart of the baseline restarted its fork: generation %d, then %d", before, after.GetGeneration())
		}
		w.kubectl("rollout restart %s", w.fork)
		w.kubectl("set env %s COLOR=red", w.base)
		w.changes("shop:2")
		if fork := w.read(w.fork); restarted(fork) == "" || !strings.Contains(fmt.Sprint(containerOf(fork)["env"]), "red") {
			t.Errorf("the fork: %v", fork.Object["spec"])
		}
	})
	t.Run("scale", func(t *testing.T) { c.scales(t, c.work(t, kind, "scaled")) })
	t.Run("pause", func(t *testing.T) {
		w := c.work(t, kind, "paused")
		w.kubectl("rollout pause %s", w.fork)
		w.setBase("shop:2")
		said := w.Condition(w.forked, crdv1.ConditionReady, "False", forkedworkload.ReasonForkPaused)
		w.ends(said, "To resume it: ", "shop:2")
	})
	t.Run("apply and a note of why", func(t *testing.T) {
		w := c.work(t, kind, "applied")
		w.kubectl("annotate %s kubernetes.io/change-cause=first", w.base)
		w.kubectl("annotate %s kubernetes.io/change-cause=mine", w.fork)
		manifest := w.read(w.fork)
		manifest.SetManagedFields(nil)
		manifest.SetResourceVersion("")
		delete(manifest.Object, "status")
		written, err := json.Marshal(manifest)
		w.Must(err)
		path := filepath.Join(t.TempDir(), "fork.json")
		if err := os.WriteFile(path, written, 0o600); err != nil {
			t.Fatal(err)
		}
		w.kubectl("apply -f %s", path)
		w.kubectl("annotate %s kubernetes.io/change-cause=second --overwrite", w.base)
		w.changes("shop:2")
	})
	t.Run("a tool notes something on both", func(t *testing.T) { c.annotates(t, c.work(t, kind, "noted")) })
	t.Run("another image in the fork is a conflict that ends", func(t *testing.T) {
		w := c.work(t, kind, "edited")
		w.kubectl("set image %s main=mine:1", w.fork)
		said := w.Condition(w.forked, crdv1.ConditionReady, "False", apply.ReasonFieldConflict)
		w.Says(said, `.spec.template.spec.containers[name="main"].image (by "kubectl-set" using apps/v1`)
		w.ends(said, "or undo them: ", "shop:1")
	})
	t.Run("another number of pods than a patch asks for is a conflict that ends", func(t *testing.T) {
		w := c.work(t, kind, "sized", `{"spec":{"replicas":2}}`)
		uid := w.read(w.fork).GetUID()
		w.kubectl("scale %s --replicas=3", w.fork)
		said := w.Condition(w.forked, crdv1.ConditionReady, "False", apply.ReasonFieldConflict)
		w.Says(said, `.spec.replicas (by "kubectl" with subresource "scale" using apps/v1`)
		w.ends(said, "or undo them: ", "shop:1")
		if fork := w.read(w.fork); replicasOf(fork) != 2 || fork.GetUID() != uid {
			t.Errorf("%d replicas, and it was made anew: %t", replicasOf(fork), fork.GetUID() != uid)
		}
	})
}

// scales scales a fork whose patches leave the number of pods open.
func (c *cluster) scales(t *testing.T, w *workload) {
	w.kubectl("scale %s --replicas=2", w.fork)
	w.changes("shop:2")
	if n := replicasOf(w.read(w.fork)); n != 2 {
		t.Errorf("scaled to 2, and then to %d", n)
	}
	w.kubectl("scale %s --replicas=0", w.fork)
	said := w.Condition(w.forked, crdv1.ConditionReady, "False", crdv1.ReasonScaledToZero)
	w.Eventually("requests are told that there is no pod", func() error {
		if fact, ok := w.log.fact(w.forked).(*factv1.WorkloadObserved); !ok || fact.Ready {
			return fmt.Errorf("stated: %v", fact)
		}
		return nil
	})
	w.setBase("shop:3")
	w.Eventually("a fork without pods follows its baseline", func() error {
		if got := imageOf(w.read(w.fork)); got != "shop:3" {
			return fmt.Errorf("it has %s", got)
		}
		return nil
	})
	w.ends(said, "To scale it up: ", "shop:3")
}

// annotates notes something on the baseline and its fork, as tools do that look after all
// workloads of a cluster: the fork has a copy of what stands on the baseline.
func (c *cluster) annotates(t *testing.T, w *workload) {
	w.kubectl("annotate %s tool/seen=1", w.base)
	w.changes("shop:2")
	w.kubectl("annotate %s tool/seen=fork --overwrite", w.fork)
	w.kubectl("annotate %s tool/seen=3 --overwrite", w.base)
	w.changes("shop:3")
	if noted := w.read(w.fork).GetAnnotations()["tool/seen"]; noted != "fork" {
		t.Errorf("the tool noted %q", noted)
	}
}

// TestPeopleWorkOnAForkOfARollout does the same to forks of Rollouts. The plugin of Argo
// for kubectl restarts one by spec.restartAt and pauses one by spec.paused, with merge
// patches as field manager kubectl-argo-rollouts.
func TestPeopleWorkOnAForkOfARollout(t *testing.T) {
	c := start(t)
	c.installArgo()
	kind := baseline.RolloutKind()
	patch := func(w *workload, reference, spec string) {
		w.kubectl(`patch --field-manager=kubectl-argo-rollouts --type=merge %s -p '{"spec":{%s}}'`, reference, spec)
	}
	for _, order := range []string{"fork", "baseline"} {
		t.Run("restart of the "+order+" first", func(t *testing.T) {
			w := c.work(t, kind, "restart-"+order)
			first, second := w.fork, w.base
			if order == "baseline" {
				first, second = second, first
			}
			patch(w, first, `"restartAt":"2026-01-01T00:00:00Z"`)
			patch(w, second, `"restartAt":"2026-01-02T00:00:00Z"`)
			patch(w, w.base, `"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":"2026-01-03T00:00:00Z"}}}`)
			w.changes("shop:2")
			if at := restarted(w.read(w.fork)); at != "" {
				t.Errorf("the fork was restarted with its baseline at %s", at)
			}
		})
	}
	t.Run("scale", func(t *testing.T) { c.scales(t, c.work(t, kind, "scaled")) })
	t.Run("pause", func(t *testing.T) {
		w := c.work(t, kind, "paused")
		patch(w, w.fork, `"paused":true`)
		w.setBase("shop:2")
		said := w.Condition(w.forked, crdv1.ConditionReady, "False", forkedworkload.ReasonForkPaused)
		w.ends(said, "To resume it: ", "shop:2")
	})
	t.Run("a tool notes something on both", func(t *testing.T) { c.annotates(t, c.work(t, kind, "noted")) })
}
