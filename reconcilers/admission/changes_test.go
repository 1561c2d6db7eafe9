package admission_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/admission"
)

// change is a change of an existing object, and the users who can make it. The objects of before
// and after differ in their metadata.
type change struct {
	says, may string
	// of is the object; its metadata is in before and after, beside the name.
	of            row
	before, after string
	// denied reports that the chart's policies deny the change, whatever rights there are.
	denied bool
}

// resources are the resources of kinds.
var resources = map[string]string{
	crdv1.KindSandbox: "signadotsandboxes", crdv1.KindResource: "resources",
	crdv1.KindForkedWorkload: "forkedworkloads", crdv1.KindExternalWorkload: "signadotexternalworkloads",
}

// changes are the rows about objects that exist.
func changes() []change {
	fork := forkOf("", "", container("image: other"))
	empty := sandboxOf("", "", "")
	resource := row{"", "", crdv1.KindResource, "metadata: {name: NAME}\nspec: {name: db, pluginName: p, olm: {preStart: [" + unitIn("namespace: shop", "containers: [{name: main, image: i}]") + "]}}"}
	tunnel := row{"", "", crdv1.KindExternalWorkload, "metadata: {name: NAME, namespace: shop}\nspec: {name: x, routingKey: x, workloadID: x, " + baseline("shop", "customer") + "}"}
	noted := func(text string) string { return "annotations: {" + text + "}" }
	owner := func(apiVersion, kind, more string) string {
		return "ownerReferences: [{apiVersion: " + apiVersion + ", kind: " + kind + ", name: x, uid: u" + more + "}]"
	}
	return []change{
		{"a label of a fork", "yyyyyy", fork, "", "labels: {a: b}", false},
		{"a fork gets a lifetime (`signadot.com/ttl`), which has it deleted", "yynnnn", fork, "", noted("signadot.com/ttl: 1h"), false},
		{"a sandbox that asks for nothing gets a lifetime", "yynnnn", empty, "", noted("signadot.com/ttl: 1h"), false},
		{"the lifetime of a fork is shortened", "yynnnn", fork, noted("signadot.com/ttl: 2h"), noted("signadot.com/ttl: 1h"), false},
		{"the lifetime of a fork is shortened by its update time", "yynnnn", fork,
			noted("signadot.com/ttl: 9w, signadot.com/ttl-offset-from: updatedAt, signadot.com/updated-at: '2030-01-02T00:00:00Z'"),
			noted("signadot.com/ttl: 9w, signadot.com/ttl-offset-from: updatedAt, signadot.com/updated-at: '2030-01-01T00:00:00Z'"), false},
		{"the lifetime of a fork counts from its creation, no longer from a later update", "yynnnn", fork,
			noted("signadot.com/ttl: 9w, signadot.com/ttl-offset-from: updatedAt, signadot.com/updated-at: '2130-01-02T00:00:00Z'"),
			noted("signadot.com/ttl: 9w, signadot.com/updated-at: '2130-01-02T00:00:00Z'"), false},
		{"the lifetime of a fork is made longer", "yyyynn", fork, noted("signadot.com/ttl: 1h"), noted("signadot.com/ttl: 2h"), false},
		{"the lifetime of a fork is removed", "yyyynn", fork, noted("signadot.com/ttl: 1h"), "", false},
		{"what a fork has on a workstation (`signadot.com/local`)", "yyyynn", fork, "", noted("signadot.com/local: '{}'"), false},
		{"the workstation of a fork (`switchyard.dev/machine`)", "yyyynn", fork, noted("switchyard.dev/machine: ada"), noted("switchyard.dev/machine: bob"), false},
		{"a step in shop is to run again (`signadot.com/retry`)", "yynynn", resource, "", noted("signadot.com/retry: now"), false},
		{"a step in shop is given up (`signadot.com/give-up`)", "yynynn", resource, "", noted("signadot.com/give-up: 'true'"), false},
		{"a fork gets an owner with which it is deleted", "yynnnn", fork, "", owner("v1", "Namespace", ""), false},
		{"a fork keeps its owner", "yyyyyy", fork, owner("v1", "Namespace", ""), owner("v1", "Namespace", "") + ", labels: {a: b}", false},
		{"a fork loses its owner", "yyyyyy", fork, owner("v1", "Namespace", ""), "", false},
		{"an external workload gets a sandbox as its owner", "nnnnnn", tunnel, "", owner("signadot.com/v1", "SignadotSandbox", ""), true},
		{"an external workload gets a sandbox as its owner that waits for it", "nnnnnn", tunnel, "", owner("signadot.com/v1", "SignadotSandbox", ", blockOwnerDeletion: true"), true},
		{"the recorded author (`switchyard.dev/author`)", "nnnnnn", fork, "", noted(`switchyard.dev/author: '{"user":"ada"}'`), true},
		{"the recorded cause (`signadot.com/on-behalf-of`)", "nnnnnn", fork, "", noted(`signadot.com/on-behalf-of: '{"kind":"SignadotSandbox","name":"x"}'`), true},
	}
}

// objects reads the object of a change before and after it.
func (c change) objects(t testing.TB, name string) (before, after crdv1.Object) {
	t.Helper()
	with := func(metadata string) crdv1.Object {
		r := c.of
		if metadata != "" {
			r.text = strings.Replace(r.text, "{name: NAME", "{name: NAME, "+metadata, 1)
		}
		o, is := r.object(t, name).(crdv1.Object)
		if !is {
			t.Fatalf("%s is no object", c.says)
		}
		return o
	}
	return with(c.before), with(c.after)
}

func raw(t testing.TB, o runtime.Object) runtime.RawExtension {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return runtime.RawExtension{Raw: text}
}

func TestRightsForChanges(t *testing.T) {
	for i, c := range changes() {
		t.Run(c.says, func(t *testing.T) {
			if c.denied {
				return // By policies, which the test on an API server has.
			}
			before, after := c.objects(t, fmt.Sprintf("change-%d", i))
			before.SetCreationTimestamp(metav1.NewTime(time.Now()))
			in := inputOf(t, after)
			in.Before, in.Resource = before, resources[c.of.kind]
			in.Change = admission.ChangeOf(&admissionv1.AdmissionRequest{Operation: admissionv1.Update, OldObject: raw(t, before), Object: raw(t, after)})
			d := admission.Decide(in)
			got := ""
			for _, u := range users() {
				got += map[bool]string{true: "y", false: "n"}[d.TooMuch == "" && len(u.lacks(d)) == 0]
			}
			if got != c.may {
				t.Errorf("%s, want %s; it takes %v %s", got, c.may, d.Wants, d.TooMuch)
			}
		})
	}
}

// answersTheTableOfChanges asks the API server about every change and user, as a dry run.
func (c *cluster) answersTheTableOfChanges(t *testing.T) {
	// The manager puts what owns objects and when it expires, so it creates them.
	manager := c.ClientWith(c.As(ownAccount, "system:masters"), schemeOf)
	for i, row := range changes() {
		name := fmt.Sprintf("change-%d", i)
		before, after := row.objects(t, name)
		c.Must(manager.Create(t.Context(), before))
		for j, u := range users() {
			err := c.tries(func() error {
				c.Must(c.Look(before))
				changed := before.DeepCopyObject().(client.Object)
				changed.SetAnnotations(after.GetAnnotations())
				changed.SetLabels(after.GetLabels())
				changed.SetOwnerReferences(after.GetOwnerReferences())
				return c.as(u.name).Update(t.Context(), changed, client.DryRunAll)
			})
			if (err == nil) != (row.may[j] == 'y') || err != nil && !apierrors.IsForbidden(err) {
				t.Errorf("%s by %s: %v", row.says, u.name, err)
			}
		}
		c.Must(client.IgnoreNotFound(c.as("admin").Delete(t.Context(), before)))
	}
}
