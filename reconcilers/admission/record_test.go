package admission_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/admission"
	"switchyard.dev/reconcilers/admission/forget"
	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/tests/world"
)

// agent is a service account that writes on behalf of users that begin with "agent:".
const agent = "system:serviceaccount:agents:agent"

var (
	delegates = admission.Delegates{{Account: agent, Prefix: "agent:"}, {Account: linkAgent, Prefix: crdv1.ControlPlanePrefix}}
	schemeOf  = manager.Scheme
)

// tries does something until it is answered with more than to try again.
func (c *cluster) tries(do func() error) error {
	err := do()
	for n := 1; (apierrors.IsServiceUnavailable(err) || apierrors.IsConflict(err)) && n < 20; n++ {
		time.Sleep(100 * time.Millisecond)
		err = do()
	}
	return err
}

// sandbox creates a sandbox that asks for nothing, as a user.
func (c *cluster) sandbox(u, name string, annotations map[string]string) *crdv1.SignadotSandbox {
	c.Helper()
	s := &crdv1.SignadotSandbox{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}, Spec: crdv1.SignadotSandboxSpec{ID: name}}
	c.Must(c.tries(func() error { return c.as(u).Create(c.Context(), s) }))
	return s
}

// authored fails the test unless an object has this author as the API server has it.
func (c *cluster) authored(what string, o client.Object, user string) {
	c.Helper()
	c.Get(o)
	author, known, err := crdv1.AuthorOf(o.GetAnnotations())
	if err != nil || known != (user != "") || author.User != user {
		c.Errorf("%s: the author is %+v (known: %t, %v), want %q", what, author, known, err, user)
	}
}

// denied fails the test unless something is forbidden, for this reason.
func denied(t *testing.T, what string, err error, reason string) {
	t.Helper()
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), reason) {
		t.Errorf("%s: the answer is %v", what, err)
	}
}

func forged(user string) map[string]string {
	return map[string]string{crdv1.AnnotationAuthor: crdv1.Author{User: user}.String()}
}

func (c *cluster) recordsTheAuthor(t *testing.T) {
	c = c.in(t)
	s := c.sandbox("stranger", "recorded", forged("ada"))
	c.authored("a new one with another's name", s, "stranger")
	if author, _, _ := crdv1.AuthorOf(s.Annotations); !slices.Equal(author.Groups, []string{"system:authenticated"}) {
		t.Errorf("its groups are %q", author.Groups)
	}
	for _, tt := range []struct{ says, user, body, author string }{
		{"another specification", "builder", `{"spec": {"sdRevision": 2}}`, "builder"},
		{"one in the name of another", "operator", `{"spec": {"sdRevision": 3}, "metadata": {"annotations": {"switchyard.dev/author": "{\"user\":\"ada\"}"}}}`, "operator"},
		{"one that removes the author", "builder", `{"spec": {"sdRevision": 4}, "metadata": {"annotations": null}}`, "builder"},
		{"a label", "stranger", `{"metadata": {"labels": {"a": "b"}}}`, "builder"},
		{"a workstation", "stranger", `{"metadata": {"annotations": {"switchyard.dev/machine": "laptop"}}}`, "builder"},
		{"a request to try again", "stranger", `{"metadata": {"annotations": {"signadot.com/retry": "1", "signadot.com/give-up": "1"}}}`, "builder"},
		{"a lifetime", "developer", `{"metadata": {"annotations": {"signadot.com/ttl": "9w", "signadot.com/ttl-offset-from": "updatedAt", "signadot.com/updated-at": "2130-01-02T00:00:00Z"}}}`, "builder"},
		{"what opens addresses", "stranger", `{"metadata": {"annotations": {"signadot.com/local": "{}"}}}`, "stranger"},
		{"a name that patches refer to", "builder", `{"metadata": {"annotations": {"signadot.com/sandbox-name": "x"}}}`, "builder"},
		{"a routing key that patches refer to", "stranger", `{"metadata": {"annotations": {"signadot.com/routing-key": "x"}}}`, "stranger"},
		{"a finalizer", "builder", `{"metadata": {"finalizers": ["a.b/c", "signadot.com/switchyard"]}}`, "stranger"},
	} {
		if err := c.tries(func() error { return c.patch(t, tt.user, s, tt.body) }); err != nil {
			t.Errorf("%s: %v", tt.says, err)
		}
		c.authored(tt.says, s, tt.author)
	}
}

// guardsTheAuthor tries to change the author and nothing that counts, as users who can do
// everything else.
func (c *cluster) guardsTheAuthor(t *testing.T) {
	c = c.in(t)
	s := c.sandbox("developer", "guarded", nil)
	for says, body := range map[string]string{
		"another author":         `{"metadata": {"annotations": {"switchyard.dev/author": "{\"user\":\"ada\"}"}}}`,
		"no author":              `{"metadata": {"annotations": {"switchyard.dev/author": null}}}`,
		"no annotation":          `{"metadata": {"annotations": null}}`,
		"one with a workstation": `{"metadata": {"annotations": {"switchyard.dev/machine": "laptop", "switchyard.dev/author": "{\"user\":\"ada\"}"}}}`,
		"one with labels":        `{"metadata": {"labels": {"a": "b"}, "annotations": {"switchyard.dev/author": "x"}}}`,
	} {
		for _, u := range []string{"admin", "stranger"} {
			denied(t, says+" by "+u, c.patch(t, u, s, body), "Annotation switchyard.dev/author names the user who last changed")
		}
	}
	status := client.RawPatch("application/merge-patch+json", []byte(`{"status": {"observedGeneration": 1}, "metadata": {"annotations": {"switchyard.dev/author": "x"}}}`))
	if err := c.as("admin").Status().Patch(t.Context(), s.DeepCopy(), status); err != nil && !apierrors.IsForbidden(err) {
		t.Errorf("with a status: %v", err)
	}
	c.authored("after all of it", s, "developer")

	// Server-side apply of what people keep in files, without the author.
	file := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "signadot.com/v1", "kind": crdv1.KindSandbox, "metadata": map[string]any{"name": "applied"}, "spec": map[string]any{"id": "applied"},
	}}
	apply := func(u string) {
		t.Helper()
		if err := c.tries(func() error {
			return c.as(u).Apply(t.Context(), client.ApplyConfigurationFromUnstructured(file.DeepCopy()), client.FieldOwner("kubectl"), client.ForceOwnership)
		}); err != nil {
			t.Error(err)
		}
	}
	applied := &crdv1.SignadotSandbox{ObjectMeta: metav1.ObjectMeta{Name: "applied"}}
	apply("developer")
	c.authored("applied", applied, "developer")
	apply("builder")
	c.authored("applied again without a change", applied, "developer")
	file.SetLabels(map[string]string{"a": "b"})
	apply("builder")
	c.authored("applied with a label", applied, "developer")
	c.Must(unstructured.SetNestedField(file.Object, int64(7), "spec", "sdRevision"))
	apply("builder")
	c.authored("applied with another specification", applied, "builder")
}

// keepsTheAuthor writes as the operator does.
func (c *cluster) keepsTheAuthor(t *testing.T) {
	c = c.in(t)
	own := c.ClientWith(c.As(ownAccount, "system:masters"), schemeOf)
	s := c.sandbox("developer", "kept", nil)
	merge := func(body string) error {
		return own.Patch(t.Context(), s.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(body)), client.FieldOwner(crdv1.FieldManager))
	}
	for _, body := range []string{
		`{"metadata": {"finalizers": ["signadot.com/switchyard"]}}`, `{"metadata": {"annotations": {"signadot.com/at-rest": "x"}}}`,
		`{"metadata": {"annotations": {"signadot.com/ttl": "9w"}}}`, `{"spec": {"sdRevision": 5}}`,
	} {
		if err := merge(body); err != nil {
			t.Errorf("%s: %v", body, err)
		}
		c.authored(body, s, "developer")
	}
	applied := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "signadot.com/v1", "kind": crdv1.KindSandbox, "metadata": map[string]any{"name": "kept"}, "spec": map[string]any{"id": "kept", "sdRevision": int64(6)},
	}}
	for range 2 {
		if err := own.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(applied.DeepCopy()), client.FieldOwner(crdv1.FieldManager), client.ForceOwnership); err != nil {
			t.Error(err)
		}
		c.authored("applied by the operator", s, "developer")
	}
	status := client.RawPatch("application/merge-patch+json", []byte(`{"status": {"observedGeneration": 1}}`))
	if err := own.Status().Patch(t.Context(), s.DeepCopy(), status); err != nil {
		t.Error(err)
	}
	denied(t, "another author by the operator", merge(`{"spec": {"sdRevision": 9}, "metadata": {"annotations": {"switchyard.dev/author": "{\"user\":\"ada\"}"}}}`), "leave it as it is")
	c.authored("after all of it", s, "developer")
}

// unregister takes the webhooks away until restore is called.
func (c *cluster) unregister() (restore func()) {
	c.Helper()
	recording, asking := &registrationv1.MutatingWebhookConfiguration{}, &registrationv1.ValidatingWebhookConfiguration{}
	recording.Name, asking.Name = "signadot-mutating-webhook-configuration", "signadot-validating-webhook-configuration"
	for _, o := range []client.Object{recording, asking} {
		c.Get(o)
		c.Remove(o)
		o.SetResourceVersion("")
	}
	return func() { c.Create(recording, asking) }
}

// in returns the same cluster for a part of the test.
func (c *cluster) in(t *testing.T) *cluster {
	part := *c
	part.World = c.In(t)
	return &part
}

func (c *cluster) delegates(t *testing.T) {
	c = c.in(t)
	c.grant(user{name: agent})
	c.grant(user{name: "builder-of-agents"}) // Not a listed delegate.
	c.Grant("agent:ada", "shop", rbacv1.PolicyRule{Verbs: []string{"create"}, APIGroups: []string{"apps"}, Resources: []string{"deployments"}})
	fork := forkOf("", "", container("image: other"))
	create := func(as, name string, author crdv1.Author) (client.Object, error) {
		o := fork.object(t, name).(client.Object)
		if author.User != "" {
			o.SetAnnotations(map[string]string{crdv1.AnnotationAuthor: author.String()})
		}
		return o, c.tries(func() error { return c.as(as).Create(t.Context(), o) })
	}
	ada := crdv1.Author{User: "agent:ada", Groups: []string{"agent:team"}}
	o, err := create(agent, "delegated", ada)
	if err != nil {
		t.Fatal(err)
	}
	c.authored("in the name of ada", o, "agent:ada")
	_, err = create(agent, "of-bob", crdv1.Author{User: "agent:bob"})
	denied(t, "a user without the rights", err, "on behalf of agent:bob: SignadotSandbox of-bob needs rights")
	_, err = create(agent, "its-own", crdv1.Author{})
	denied(t, "the delegate itself, which may not", err, "you may not create deployments.apps")
	for _, other := range []crdv1.Author{{User: "admin"}, {User: "agent:ada", Groups: []string{"system:masters"}}, {User: "agent"}} {
		_, err = create(agent, "other", other)
		denied(t, other.String(), err, `can only name users and groups that begin with "agent:"`)
	}
	_, err = create("builder-of-agents", "not-listed", ada)
	denied(t, "an account that is no delegate", err, "needs rights that you do not have")

	change := func(body string) error { return c.tries(func() error { return c.patch(t, agent, o, body) }) }
	if err := change(`{"spec": {"sdRevision": 2}}`); err != nil {
		t.Error(err)
	}
	c.authored("changed without another name", o, "agent:ada")
	denied(t, "another name alone", change(`{"metadata": {"annotations": {"switchyard.dev/author": "{\"user\":\"agent:bob\"}"}}}`), "leave it as it is")
	denied(t, "another name that has no rights", change(`{"spec": {"sdRevision": 3}, "metadata": {"annotations": {"switchyard.dev/author": "{\"user\":\"agent:bob\"}"}}}`), "on behalf of agent:bob: ")
	denied(t, "a value that is no name", change(`{"spec": {"sdRevision": 3}, "metadata": {"annotations": {"switchyard.dev/author": "x"}}}`), "write a JSON object")

	// A sandbox of a person that the delegate changes without naming a user is the delegate's then.
	s := c.sandbox("developer", "of-a-person", nil)
	if err := c.tries(func() error { return c.patch(t, agent, s, `{"spec": {"sdRevision": 2}}`) }); err != nil {
		t.Error(err)
	}
	c.authored("changed by the delegate", s, agent)
}

// guardsMarks tries to write in the operator's name.
func (c *cluster) guardsMarks(t *testing.T) {
	c = c.in(t)
	behalf := `{"kind":"SignadotSandbox","name":"another"}`
	s := &crdv1.SignadotSandbox{ObjectMeta: metav1.ObjectMeta{Name: "marked", Annotations: map[string]string{crdv1.AnnotationOnBehalf: behalf}}, Spec: crdv1.SignadotSandboxSpec{ID: "marked"}}
	denied(t, "a cause", c.tries(func() error { return c.as("admin").Create(t.Context(), s.DeepCopy()) }), "signadot.com/on-behalf-of is written by the operator only")
	tunnel := &crdv1.SignadotExternalWorkload{}
	c.Read(tunnel, "metadata: {name: owned, namespace: shop, ownerReferences: [{apiVersion: signadot.com/v1, kind: SignadotSandbox, name: guarded, uid: u}]}\nspec: {name: x, routingKey: x, workloadID: x, "+baseline("shop", "customer")+"}")
	denied(t, "an owner", c.tries(func() error { return c.as("admin").Create(t.Context(), tunnel.DeepCopy()) }), "Owner references to objects of signadot.com are written by the operator only")

	c.restoresWithoutMarks(t, behalf)

	// One of the operator, with its owner and its cause.
	own := c.ClientWith(c.As(ownAccount, "system:masters"), schemeOf)
	tunnel.Annotations = map[string]string{crdv1.AnnotationOnBehalf: behalf}
	tunnel.OwnerReferences[0].BlockOwnerDeletion = new(true)
	c.Must(own.Create(t.Context(), tunnel, client.FieldOwner(crdv1.FieldManager)))
	write := func(body string, options ...client.PatchOption) error {
		return c.tries(func() error {
			return c.as("developer").Patch(t.Context(), tunnel.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(body)), options...)
		})
	}
	const local = `{"spec": {"name": "y"}}`
	denied(t, "another cause", write(`{"metadata": {"annotations": {"signadot.com/on-behalf-of": "{}"}}}`), "written by the operator only")
	denied(t, "the operator's field manager", write(local, client.FieldOwner(crdv1.FieldManager)), "Field manager switchyard is the operator's")
	disguised := c.As("developer", "system:authenticated")
	disguised.UserAgent = "switchyard/v1"
	c.Eventually("a later second has come, which is how exactly writes are noted", func() error {
		if time.Since(tunnel.CreationTimestamp.Time) < 2*time.Second {
			return errors.New("not yet")
		}
		return nil
	})
	denied(t, "the operator's User-Agent", c.tries(func() error {
		return c.ClientWith(disguised, schemeOf).Patch(t.Context(), tunnel.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(local)))
	}), "Field manager switchyard is the operator's")
	for says, body := range map[string]string{
		"another specification": local,
		"its owner waits for it no longer, as the garbage collector writes": `{"metadata": {"ownerReferences": [{"apiVersion": "signadot.com/v1", "kind": "SignadotSandbox", "name": "guarded", "uid": "u", "blockOwnerDeletion": false}]}}`,
		"no owner": `{"metadata": {"ownerReferences": null}}`,
	} {
		if err := write(body, client.DryRunAll); err != nil {
			t.Errorf("%s: %v", says, err)
		}
	}
}

// restoresWithoutMarks creates objects as a backup tool does that copied those of the operator: they are
// the tool's own then, and the tool gains no owner, cause or author.
func (c *cluster) restoresWithoutMarks(t *testing.T, behalf string) {
	c.Helper()
	const marks = `, annotations: {signadot.com/on-behalf-of: '{"kind":"SignadotSandbox","name":"another"}', switchyard.dev/author: '{"user":"ada"}', other: kept},
  ownerReferences: [{apiVersion: signadot.com/v1, kind: SignadotSandbox, name: guarded, uid: u, controller: true},
    {apiVersion: v1, kind: ConfigMap, name: other, uid: w}, {apiVersion: signadot.com/v1beta1, kind: SignadotSandbox, name: guarded, uid: v}]}`
	config, fork := &crdv1.RoutingConfig{}, &crdv1.ForkedWorkload{}
	c.Read(config, "metadata: {name: restored"+marks+"\nspec: {sandboxedWorkloads: []}")
	c.Read(fork, "metadata: {name: restored, namespace: shop"+marks+"\nspec: {"+baseline("shop", "customer")+"}")
	for _, o := range []client.Object{config, fork} {
		c.Must(c.tries(func() error { return c.as("admin").Create(c.Context(), o) }))
		c.authored(fmt.Sprintf("a restored %T", o), o, "admin")
		_, caused := o.GetAnnotations()[crdv1.AnnotationOnBehalf]
		if owners := o.GetOwnerReferences(); caused || o.GetAnnotations()["other"] != "kept" || len(owners) != 1 || owners[0].Kind != "ConfigMap" {
			c.Errorf("%T has annotations %v and owners %v", o, o.GetAnnotations(), owners)
		}
		denied(t, "a cause in an update", c.tries(func() error {
			body := fmt.Sprintf(`{"metadata": {"annotations": {"signadot.com/on-behalf-of": %q}}}`, behalf)
			return c.as("admin").Patch(c.Context(), o.DeepCopyObject().(client.Object), client.RawPatch("application/merge-patch+json", []byte(body)))
		}), "written by the operator only")
		denied(t, "an owner in an update", c.tries(func() error {
			body := `{"metadata": {"ownerReferences": [{"apiVersion": "signadot.com/v1", "kind": "SignadotSandbox", "name": "guarded", "uid": "u"}]}}`
			return c.as("admin").Patch(c.Context(), o.DeepCopyObject().(client.Object), client.RawPatch("application/merge-patch+json", []byte(body)))
		}), "written by the operator only")
	}
}

// forgets has an author recorded, then the policy of an operator that reviews no authors.
func (c *cluster) forgets(t *testing.T) {
	c = c.in(t)
	s := c.sandbox("developer", "forgotten", nil)
	c.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "signadot", Name: forget.State}})
	f := forget.Config{Client: c.ClientWith(c.As(ownAccount, "system:masters"), schemeOf), Namespace: "signadot", Asked: true, Settle: time.Millisecond, Logger: world.Quiet}
	c.Must(f.Run(t.Context()))
	c.authored("recorded before the policy was known", s, "")

	later := c.sandbox("developer", "remembered", nil)
	c.Must(f.Run(t.Context()))
	c.authored("recorded under the policy", later, "developer")

	c.policies("small") // It does not ask.
	defer c.policies("default")
	revision := int64(10)
	changes := func(annotations string) error {
		revision++
		return c.tries(func() error {
			return c.patch(t, "admin", later, fmt.Sprintf(`{"spec": {"sdRevision": %d}, "metadata": {"annotations": %s}}`, revision, annotations))
		})
	}
	c.Eventually("the author does not stay with another specification", func() error {
		err := c.patch(t, "admin", later, fmt.Sprintf(`{"metadata": {"annotations": {"signadot.com/local": "%d"}}}`, time.Now().UnixNano()))
		if err == nil || !strings.Contains(err.Error(), "remove it with this change") && !strings.Contains(err.Error(), "cannot be set while") {
			return fmt.Errorf("the answer is %w", err)
		}
		return nil
	})
	f.Asked = false
	c.Must(f.Run(t.Context()))
	c.authored("while no authors are reviewed", later, "")
	defer c.unregister()()
	c.Eventually("specifications change without an author", func() error { return changes(`{"x": "y"}`) })
	denied(t, "a forged author", changes(`{"switchyard.dev/author": "{\"user\":\"ada\"}"}`), "cannot be set while authors are not asked about")
	c.authored("in the end", later, "")
}
