package manager_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/tests/world"
	"switchyard.dev/workflows/execunit"
	"switchyard.dev/workflows/grant"
	"switchyard.dev/workflows/iocontext"
	"switchyard.dev/workflows/iocontext/store"
)

// signer replaces the operator's authority: no IO context server verifies grants here.
var signer, _ = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)

// units say how units run.
var units = manager.Workflows{Sign: signedBy(signer), Settings: execunit.Settings{
	InitImage: "io-init", SidecarImage: "io-sidecar", Address: "https://nowhere:8443", CA: "none", AuthorAsked: true,
}}

const twoSteps = `
  preStart:
    - {name: provision, type: ExecUnit, outputs: [{name: host}], execUnitTemplate: {script: "#!/bin/sh", outputExports: [{outputName: host, fromPath: /tmp/host}],
        podTemplate: {spec: {containers: [{name: main, image: a}]}}}}
    - {name: seed, type: ExecUnit, inputs: [{name: host, iocontext: {key: provision.host}}], execUnitTemplate: {script: "#!/bin/sh",
        inputInjects: [{inputName: host, dst: {env: HOST}}], podTemplate: {spec: {containers: [{name: main, image: a}]}}}}
  postStop:
    - {name: remove, type: ExecUnit, inputs: [{name: host, iocontext: {key: provision.host}}], execUnitTemplate: {script: "#!/bin/sh",
        inputInjects: [{inputName: host, dst: {env: HOST}}], podTemplate: {spec: {containers: [{name: main, image: a}]}}}}`

// resourceOf makes a Resource whose outputs go to the test's namespace.
func (c *cluster) resourceOf(name, olm string) *crdv1.Resource {
	c.Helper()
	r := &crdv1.Resource{}
	c.Make(r, "\nmetadata: {name: "+name+"}\nspec:\n  name: db\n  pluginName: p\n  outputNamespaces: ["+c.ns+"]\n  olm:"+strings.ReplaceAll(olm, "\n", "\n  "))
	return r
}

// unitPod waits for the pod of an attempt of a unit, whose UID the status names.
func (c *cluster) unitPod(object, unit string, attempt int32) *corev1.Pod {
	c.Helper()
	pod := &corev1.Pod{}
	c.Eventually(fmt.Sprintf("attempt %d of step %s runs", attempt, unit), func() error {
		m := &crdv1.SignadotObjectLifecycleMethods{}
		if err := c.Client.Get(c.Context(), client.ObjectKey{Name: object}, m); err != nil {
			return err
		}
		for _, st := range append(m.Status.PreCreate, m.Status.PostStop...) {
			if st.Name == unit && st.Attempt == attempt && st.Phase == crdv1.UnitRunning {
				if err := c.Client.Get(c.Context(), client.ObjectKey{Namespace: st.ExecUnit.Namespace, Name: st.ExecUnit.Name}, pod); err != nil {
					return err
				}
				if string(pod.UID) != st.PodUID {
					return errors.New("the status names another pod")
				}
				return nil
			}
		}
		return fmt.Errorf("the units are %+v and %+v", m.Status.PreCreate, m.Status.PostStop)
	})
	return pod
}

// ends writes what the kubelet does of a pod whose script has ended.
func (c *cluster) ends(pod *corev1.Pod, ending iocontext.Ending) {
	c.Helper()
	said, err := json.Marshal(ending)
	c.Must(err)
	pod.Status.Phase = corev1.PodSucceeded
	if ending.ExitCode != 0 {
		pod.Status.Phase = corev1.PodFailed
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{
		{Name: "main", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: int32(ending.ExitCode), Message: string(said)}}},
		{Name: execunit.OutputManager, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}},
	}
	c.Must(c.Client.Status().Update(c.Context(), pod))
}

// gives keeps a value, as the IO context server does.
func (c *cluster) gives(object, key, value string) {
	c.Helper()
	m := &crdv1.SignadotObjectLifecycleMethods{}
	c.Must(c.Client.Get(c.Context(), client.ObjectKey{Name: object}, m))
	values := store.Store{Client: c.Client, Namespace: c.operator()}
	c.Must(values.Put(c.Context(), m, key, []byte(value), store.Giver{Pod: "pod"}, func(context.Context) error { return nil }))
}

// A replica that does not lead has its controllers' caches filled, to take over at once, and ends
// when one of them is not filled within two minutes.
func TestAReplicaThatDoesNotLeadReadsThePodsOfUnits(t *testing.T) {
	c := newCluster(t, "units-standby")
	var reads atomic.Bool
	for i := range 2 {
		access := c.As("")
		access.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return world.RoundTrip(func(r *http.Request) (*http.Response, error) {
				if i == 1 && strings.HasSuffix(r.URL.Path, "/pods") && strings.Contains(r.URL.Query().Get("labelSelector"), crdv1.LabelLifecycle) {
					reads.Store(true)
				}
				return next.RoundTrip(r)
			})
		})
		c.manage(manager.Config{REST: access, LeaderElect: true, Workflows: units})
		if i == 0 {
			c.Eventually("the first leads", c.main.LogReady)
		}
	}
	c.Eventually("the second reads", func() error {
		if !reads.Load() {
			return errors.New("it does not")
		}
		return nil
	})
	if c.main.LogReady() == nil {
		t.Error("the second leads")
	}
}

func TestAResourceIsMadeAndRemoved(t *testing.T) {
	const ns = "units"
	c := shared(t, ns)
	r := c.resourceOf("units-db", twoSteps)
	c.Condition(r, crdv1.ConditionReady, "False", "Waiting")

	first := c.unitPod(r.Name, "provision", 1)
	if !slices.Contains(first.Finalizers, crdv1.Finalizer) || first.Namespace != c.operator() {
		t.Errorf("the pod is in %s, with finalizers %v", first.Namespace, first.Finalizers)
	}
	c.gives(r.Name, "provision.host", "db.example")
	c.ends(first, iocontext.Ending{})
	c.ends(c.unitPod(r.Name, "seed", 1), iocontext.Ending{})
	c.Condition(r, crdv1.ConditionReady, "True", "Ready")
	c.Get(r)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: r.OutputsSecret()}}
	c.Get(secret)
	if got := string(secret.Data["provision.host"]); got != "db.example" || len(secret.Data) != 1 || !*secret.Immutable || secret.Name == r.Name {
		t.Errorf("Secret %s has %v", secret.Name, secret.Data)
	}

	// A user deletes it, and asks for it.
	c.Remove(secret)
	world.Edit(c.World, r, func(r *crdv1.Resource) { r.Annotations = map[string]string{crdv1.AnnotationRetry: "secret"} })
	c.Eventually("the Secret with outputs is there again", func() error { return c.Look(secret) })
	if got := string(secret.Data["provision.host"]); got != "db.example" {
		t.Errorf("it has %v", secret.Data)
	}
	// A user deletes it, and another namespace wants the outputs.
	c.Remove(secret)
	another := c.NewNamespace("wants")
	world.Edit(c.World, r, func(r *crdv1.Resource) { r.Spec.OutputNamespaces = append(r.Spec.OutputNamespaces, another) })
	c.Eventually("the Secret with outputs is in both namespaces", func() error {
		other := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: another, Name: secret.Name}}
		return errors.Join(c.Look(secret), c.Look(other))
	})
	c.Eventually("pods of units that have ended are let go", func() error {
		if err := c.Look(first); err != nil || len(first.Finalizers) > 0 {
			return fmt.Errorf("%v, %w", first.Finalizers, err)
		}
		return nil
	})
	if c.Look(r) != nil || r.Status.Phase != "Ready" || len(r.Status.Create) != 2 || !slices.Equal(r.Status.Create[0].Outputs, []string{"host"}) {
		t.Errorf("the status is %+v", r.Status)
	}

	c.Remove(r)
	remove := c.unitPod(r.Name, "remove", 1)
	c.Condition(r, crdv1.ConditionReady, "False", "Ending")
	c.ends(remove, iocontext.Ending{})
	c.Gone(r)
	var left corev1.SecretList
	c.List(&left, client.InNamespace(c.operator()), client.MatchingLabels{crdv1.LabelLifecycle: r.Name})
	if len(left.Items) > 0 {
		t.Errorf("%d values are left", len(left.Items))
	}
}

func TestAUnitThatFailsFailsTheSandbox(t *testing.T) {
	const ns = "units-fail"
	c := shared(t, ns)
	r := c.resourceOf("units-fail-db", twoSteps)
	c.ends(c.unitPod(r.Name, "provision", 1), iocontext.Ending{ExitCode: 3, Reason: "ScriptFailed", Tail: "no such host <host>"})
	c.Says(c.Condition(r, crdv1.ConditionReady, "False", crdv1.ReasonResourceFailed), `step "provision"`, "exit code 3", "no such host <host>")
	if c.Look(r) != nil || r.Status.Phase != "Failed" {
		t.Errorf("the phase is %s", r.Status.Phase)
	}

	// A request to try again is passed on, and heeded once.
	world.Edit(c.World, r, func(r *crdv1.Resource) { r.Annotations = map[string]string{crdv1.AnnotationRetry: "first"} })
	c.ends(c.unitPod(r.Name, "provision", 2), iocontext.Ending{ExitCode: 4})
	c.Eventually("the second attempt has failed as well", func() error {
		if err := c.Look(r); err != nil {
			return err
		}
		if ready := crdv1.FindCondition(r.Status.Conditions, crdv1.ConditionReady); !strings.Contains(ready.Message, "exit code 4") {
			return fmt.Errorf("it says %s", ready.Message)
		}
		return nil
	})

	// The plugin is mended: what failed runs again, in its new form.
	world.Edit(c.World, r, func(r *crdv1.Resource) { r.Spec.OLM.PreStart[0].ExecUnitTemplate.Script = "#!/bin/mended" })
	third := c.unitPod(r.Name, "provision", 3)
	c.gives(r.Name, "provision.host", "x")
	c.ends(third, iocontext.Ending{})
	c.ends(c.unitPod(r.Name, "seed", 1), iocontext.Ending{})
	c.Condition(r, crdv1.ConditionReady, "True", "Ready")
	for _, uid := range []string{string(third.UID)} {
		var pods corev1.PodList
		c.List(&pods, client.MatchingLabels{crdv1.LabelLifecycle: r.Name, crdv1.LabelUnit: "provision"})
		if len(pods.Items) != 1 || string(pods.Items[0].UID) != uid {
			t.Errorf("%d pods of the unit are left", len(pods.Items))
		}
	}

	// A delete step that fails holds it, and the message names the ways on; giving up lets it go.
	c.Remove(r)
	c.ends(c.unitPod(r.Name, "remove", 1), iocontext.Ending{ExitCode: 1, Tail: "still in use"})
	c.Says(c.Condition(r, crdv1.ConditionReady, "False", "ScriptFailed"), "still in use", crdv1.AnnotationGiveUp, r.Name)
	world.Edit(c.World, r, func(r *crdv1.Resource) { r.Annotations[crdv1.AnnotationRetry] = "second" })
	c.ends(c.unitPod(r.Name, "remove", 2), iocontext.Ending{ExitCode: 1})
	c.Condition(r, crdv1.ConditionReady, "False", "ScriptFailed")
	world.Edit(c.World, r, func(r *crdv1.Resource) { r.Annotations[crdv1.AnnotationGiveUp] = "true" })
	c.Gone(r)
}

func TestASandboxIsDeletedWhileItsResourceIsMade(t *testing.T) {
	const ns = "units-early"
	c := shared(t, ns)
	s := c.sandbox("units-early", "{id: units-early-key, managedResources: [{name: db, pluginName: p, olm: {"+
		"preStart: [{name: a, type: ExecUnit, execUnitTemplate: {script: '#!/bin/sh', podTemplate: {spec: {containers: [{name: main, image: a}]}}}}],"+
		"postStop: [{name: z, type: ExecUnit, execUnitTemplate: {script: '#!/bin/sh', podTemplate: {spec: {containers: [{name: main, image: a}]}}}}]}}]}")
	r := c.resource(s.Name, "db")
	pod := c.unitPod(r.Name, "a", 1)
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	c.Must(c.Client.Status().Update(c.Context(), pod))
	c.Remove(s)
	c.Says(c.Condition(r, crdv1.ConditionReady, "False", "Ending"), "once the create steps have ended")
	c.ends(pod, iocontext.Ending{})
	c.ends(c.unitPod(r.Name, "z", 1), iocontext.Ending{})
	c.Gone(s)
}

func TestStepsThatCannotRunAreReported(t *testing.T) {
	const ns = "units-wrong"
	c := shared(t, ns)
	for name, tt := range map[string]struct{ olm, reason, says string }{
		"a cycle":   {"{preStart: [{name: a, type: ExecUnit, outputs: [{name: x}], inputs: [{name: x, iocontext: {key: a.x}}]}]}", "ResourceFailed", "wait for each other"},
		"no script": {"{preStart: [{name: a, type: ExecUnit}]}", "ResourceFailed", "no execUnitTemplate"},
	} {
		r := &crdv1.Resource{}
		c.Make(r, "{metadata: {name: units-wrong-"+strings.ReplaceAll(name, " ", "-")+"}, spec: {name: db, pluginName: p, olm: "+tt.olm+"}}")
		c.Says(c.Condition(r, crdv1.ConditionReady, "False", tt.reason), tt.says)
		c.Remove(r)
		c.Gone(r)
	}
}

// A manager whose cache is old makes a pod for an object that is gone, or that has another life.
func TestAPodOfADeletedObjectIsDeleted(t *testing.T) {
	const ns = "units-orphans"
	c := shared(t, ns)
	r := c.resourceOf("units-again", twoSteps)
	c.unitPod(r.Name, "provision", 1)
	var pods []*corev1.Pod
	for _, name := range []string{"units-gone", r.Name} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: c.operator(), Name: name + "-of-before", Finalizers: []string{crdv1.Finalizer},
			Labels: map[string]string{crdv1.LabelLifecycle: name, crdv1.LabelUnit: "provision"}, Annotations: map[string]string{crdv1.AnnotationAttempt: "1"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: crdv1.APIVersion, Kind: crdv1.KindLifecycleMethods, Name: name, UID: "of-before", Controller: new(true)}},
		}}
		pod.Spec.Containers = []corev1.Container{{Name: "main", Image: "a"}}
		c.Create(pod)
		pods = append(pods, pod)
	}
	for _, pod := range pods {
		c.Gone(pod)
	}
	c.unitPod(r.Name, "provision", 1) // Its own pod stays.
}

// A script that never started, for want of its image, is not lost: the step begins again with the image of
// a corrected plugin.
func TestAnImageIsCorrectedBeforeTheScriptStarts(t *testing.T) {
	c := shared(t, "units-image")
	r := c.resourceOf("units-image-db", twoSteps)
	pod := c.unitPod(r.Name, "provision", 1)
	world.Edit(c.World, r, func(r *crdv1.Resource) {
		r.Spec.OLM.PreStart[0].ExecUnitTemplate.PodTemplate.Spec.Containers[0].Image = "b"
	})
	c.Eventually("the pod with the earlier image is being deleted", func() error {
		if err := c.Client.Get(c.Context(), client.ObjectKeyFromObject(pod), pod); err != nil || pod.DeletionTimestamp != nil {
			return err
		}
		return errors.New("it is not")
	})
	// What the kubelet reports about containers that it never created.
	pod.Status.Phase = corev1.PodFailed
	for _, name := range []string{"main", "signadot-execunit-output-manager"} {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{Name: name, State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{Reason: "ContainerStatusUnknown", Message: "The container could not be located when the pod was terminated", ExitCode: 137}}})
	}
	c.Must(c.Client.Status().Update(c.Context(), pod))
	if image := c.unitPod(r.Name, "provision", 2).Spec.Containers[0].Image; image != "b" {
		t.Errorf("it runs in image %s", image)
	}
}

// An output that a later version of the plugin adds to a step that has run has no value.
func TestAnOutputThatWasAddedLater(t *testing.T) {
	c := shared(t, "units-added")
	r := c.resourceOf("units-added-db", twoSteps)
	pod := c.unitPod(r.Name, "provision", 1)
	c.gives(r.Name, "provision.host", "host")
	c.ends(pod, iocontext.Ending{})
	c.ends(c.unitPod(r.Name, "seed", 1), iocontext.Ending{})
	c.Condition(r, crdv1.ConditionOutputsWritten, "True", "OutputsWritten")
	world.Edit(c.World, r, func(r *crdv1.Resource) {
		u := &r.Spec.OLM.PreStart[0]
		u.Outputs = append(u.Outputs, crdv1.WorkUnitOutput{Name: "port"})
		u.ExecUnitTemplate.OutputExports = append(u.ExecUnitTemplate.OutputExports, crdv1.OutputExport{OutputName: "port", FromPath: "/tmp/port"})
	})
	c.Says(c.Condition(r, crdv1.ConditionOutputsWritten, "False", "OutputMissing"), `Step "provision" ran before its plugin had the output "port"`, "kubectl delete resource units-added-db")
}

// A step that waits for a namespace starts in the one of a corrected plugin.
func TestAStepThatWaitsFollowsItsNamespace(t *testing.T) {
	c := shared(t, "units-moved")
	r := c.resourceOf("units-moved-db", strings.ReplaceAll(twoSteps, "podTemplate: {spec", "podTemplate: {metadata: {namespace: units-moved-wrong}, spec"))
	c.Condition(r, crdv1.ConditionProvisioned, "False", "NamespaceNotFound")
	c.Accounts("units-moved", "default")
	world.Edit(c.World, r, func(r *crdv1.Resource) {
		for i := range r.Spec.OLM.PreStart {
			r.Spec.OLM.PreStart[i].ExecUnitTemplate.PodTemplate.Namespace = "units-moved"
		}
	})
	if pod := c.unitPod(r.Name, "provision", 1); pod.Namespace != "units-moved" {
		t.Errorf("its pod is in namespace %s", pod.Namespace)
	}
}

// Steps wait for a namespace or a quota, and report it with a remedy: they go on by themselves, or
// the person who deletes the sandbox lets the resource go.
func TestStepsThatWaitNameTheirCause(t *testing.T) {
	c := shared(t, "units-wait")
	in := strings.ReplaceAll(twoSteps, "podTemplate: {spec", "podTemplate: {metadata: {namespace: units-wait-later}, spec")
	s := &crdv1.SignadotSandbox{}
	c.Make(s, "\nmetadata: {name: units-wait}\nspec:\n  id: units-wait\n  managedResources:\n  - name: db\n    pluginName: p\n    olm:"+strings.ReplaceAll(in, "\n", "\n    "))
	r := c.resource("units-wait", "db")
	says := func(o client.Object, conditionType string, parts ...string) {
		c.Helper()
		c.Eventually(fmt.Sprintf("%s of %s names the cause", conditionType, o.GetName()), func() error {
			if err := c.Client.Get(c.Context(), client.ObjectKeyFromObject(o), o); err != nil {
				return err
			}
			has := crdv1.FindCondition(*o.(crdv1.Conditioned).StatusConditions(), conditionType)
			for _, part := range parts {
				if has == nil || !strings.Contains(has.Reason+": "+has.Message, part) {
					return fmt.Errorf("without %q: %+v", part, has)
				}
			}
			return nil
		})
	}
	says(r, crdv1.ConditionProvisioned, "NamespaceNotFound: ", `Step "provision" waits, since its namespace units-wait-later does not exist: create it; the step then starts by itself`)
	says(s, crdv1.ConditionReady, "ResourcesNotReady: ", "(NamespaceNotFound)", "namespace units-wait-later does not exist: create it")

	c.Namespaces("units-wait-later")
	c.Accounts("units-wait-later", "default")
	quota := &corev1.ResourceQuota{}
	c.Make(quota, `
metadata: {name: limits, namespace: units-wait-later}
spec: {hard: {limits.cpu: "2"}}`)
	c.Make(&corev1.LimitRange{}, `
metadata: {name: small, namespace: units-wait-later}
spec: {limits: [{type: Container, max: {memory: 64Mi}}]}`)
	says(r, crdv1.ConditionProvisioned, "Forbidden: ", `The API server refuses the pod of step "provision" in namespace units-wait-later (`, "ioInit.resources and ioSidecar.resources of the chart")
	c.Remove(&corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: "units-wait-later", Name: "small"}})
	c.Remove(quota)
	pod := c.unitPod(r.Name, "provision", 1)
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/1 nodes are available"}}
	c.Must(c.Client.Status().Update(c.Context(), pod))
	says(r, crdv1.ConditionProvisioned, "Unschedulable: ", "0/1 nodes are available")
	c.Must(c.Client.Get(c.Context(), client.ObjectKeyFromObject(pod), pod))
	c.gives(r.Name, "provision.host", "host")
	c.ends(pod, iocontext.Ending{})
	c.ends(c.unitPod(r.Name, "seed", 1), iocontext.Ending{})
	c.Condition(s, crdv1.ConditionReady, "True", "Ready")

	c.Make(&corev1.LimitRange{}, `
metadata: {name: small, namespace: units-wait-later}
spec: {limits: [{type: Container, max: {memory: 64Mi}}]}`)
	c.Must(c.Client.Delete(c.Context(), s))
	giveUp := "Or skip the delete steps with switchyard resource give-up"
	says(r, crdv1.ConditionReady, "Forbidden: ", `The API server refuses the pod of step "remove"`, "maximum memory usage per Container", giveUp)
	says(s, crdv1.ConditionReady, giveUp)
	c.Remove(&corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: "units-wait-later", Name: "small"}})
	c.ends(c.unitPod(r.Name, "remove", 1), iocontext.Ending{})
	c.Gone(s)
}

// signedBy returns a Signer that uses a private key.
func signedBy(key *ecdsa.PrivateKey) grant.Signer {
	return func(message []byte) ([]byte, error) {
		digest := sha256.Sum256(message)
		return ecdsa.SignASN1(rand.Reader, key, digest[:])
	}
}
