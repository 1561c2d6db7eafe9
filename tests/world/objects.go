package world

import (
	"errors"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tests/apiserver"
)

// Read reads an object from YAML. A typed one may have no field that its type lacks.
func (w *World) Read(o client.Object, text string) {
	w.Helper()
	var err error
	if u, untyped := o.(*unstructured.Unstructured); untyped {
		err = yaml.Unmarshal([]byte(text), &u.Object)
	} else {
		err = yaml.UnmarshalStrict([]byte(text), o)
	}
	if err != nil {
		w.Fatalf("%v in:\n%s", err, text)
	}
}

// Make makes an object from YAML.
func (w *World) Make(o client.Object, text string) {
	w.Helper()
	w.Read(o, text)
	w.Create(o)
}

// Create creates objects, in order.
func (w *World) Create(objects ...client.Object) {
	w.Helper()
	w.Must(apiserver.Create(w.Context(), w.Client, objects...))
}

// Namespaces creates namespaces.
func (w *World) Namespaces(names ...string) {
	w.Helper()
	for _, name := range names {
		w.Create(apiserver.Namespace(name))
	}
}

// NewNamespace creates a namespace of the test's own and returns its name, which begins so.
func (w *World) NewNamespace(prefix string) string {
	w.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: prefix + "-"}}
	w.Create(ns)
	return ns.Name
}

// Accounts creates service accounts.
func (w *World) Accounts(namespace string, names ...string) {
	w.Helper()
	for _, name := range names {
		w.Create(apiserver.Account(namespace, name))
	}
}

// RunPod creates a pod, sets its status as a kubelet would, and returns it.
func (w *World) RunPod(pod *corev1.Pod, status corev1.PodStatus) *corev1.Pod {
	w.Helper()
	w.Create(pod)
	pod.Status = status
	w.Must(w.Client.Status().Update(w.Context(), pod))
	return pod
}

// Get reads an object as it is now, by its name.
func (w *World) Get(o client.Object) {
	w.Helper()
	w.Must(w.Look(o))
}

// Look reads an object as it is now, by its name, or returns why it cannot.
func (w *World) Look(o client.Object) error {
	return w.Client.Get(w.Context(), client.ObjectKeyFromObject(o), o)
}

// List reads what there is of a kind.
func (w *World) List(list client.ObjectList, options ...client.ListOption) {
	w.Helper()
	w.Must(w.Client.List(w.Context(), list, options...))
}

// Remove deletes an object; a pod at once.
func (w *World) Remove(o client.Object) {
	w.Helper()
	var options []client.DeleteOption
	if _, is := o.(*corev1.Pod); is {
		options = append(options, client.GracePeriodSeconds(0))
	}
	if err := w.Client.Delete(w.Context(), o, options...); err != nil {
		w.Fatalf("delete %T %s: %v", o, o.GetName(), err)
	}
}

// Edit changes an object and retries on conflicts.
func Edit[T client.Object](w *World, o T, change func(o T)) {
	w.Helper()
	w.Eventually(fmt.Sprintf("%T %s can be changed", o, o.GetName()), func() error {
		if err := w.Look(o); err != nil {
			return err
		}
		change(o)
		return w.Client.Update(w.Context(), o)
	})
}

// Available sets the status of a Deployment to all pods ready, as its controller would.
func (w *World) Available(d *appsv1.Deployment) {
	w.Helper()
	w.Eventually("the status of Deployment "+d.Name+" can be changed", func() error {
		if err := w.Look(d); err != nil {
			return err
		}
		n := *d.Spec.Replicas
		d.Status = appsv1.DeploymentStatus{
			ObservedGeneration: d.Generation, Replicas: n, UpdatedReplicas: n, ReadyReplicas: n, AvailableReplicas: n,
		}
		return w.Client.Status().Update(w.Context(), d)
	})
}

// Grant grants a user the rules in a namespace, or in all for "". It returns when the API server
// allows them: it watches Roles and bindings with a delay.
func (w *World) Grant(user, namespace string, rules ...rbacv1.PolicyRule) {
	w.Helper()
	meta := metav1.ObjectMeta{GenerateName: "of-" + strings.NewReplacer(":", "-").Replace(user) + "-", Namespace: namespace}
	to := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}
	if namespace == "" {
		role := &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}
		w.Create(role)
		w.Create(&rbacv1.ClusterRoleBinding{ObjectMeta: meta, Subjects: to, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name}})
	} else {
		role := &rbacv1.Role{ObjectMeta: meta, Rules: rules}
		w.Create(role)
		w.Create(&rbacv1.RoleBinding{ObjectMeta: meta, Subjects: to, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name}})
	}
	w.allowed(user, namespace, rules)
}

// allowed waits until the API server allows a user the first right of each rule.
func (w *World) allowed(user, namespace string, rules []rbacv1.PolicyRule) {
	w.Helper()
	first := func(of []string) string { return append(of, "")[0] }
	for _, rule := range rules {
		spec := authorizationv1.SubjectAccessReviewSpec{User: user}
		if len(rule.NonResourceURLs) > 0 {
			spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Path: rule.NonResourceURLs[0], Verb: first(rule.Verbs)}
		} else {
			resource, sub, _ := strings.Cut(first(rule.Resources), "/")
			spec.ResourceAttributes = &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: first(rule.Verbs),
				Group: first(rule.APIGroups), Resource: resource, Subresource: sub, Name: first(rule.ResourceNames)}
		}
		w.Eventually(fmt.Sprintf("%s is allowed %v", user, rule), func() error {
			review, err := w.Kube.AuthorizationV1().SubjectAccessReviews().Create(w.Context(), &authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
			if err == nil && !review.Status.Allowed {
				err = errors.New("not yet")
			}
			return err
		})
	}
}

// Token returns a token of a service account for an audience, bound to a pod unless that is nil.
func (w *World) Token(namespace, account, audience string, pod *corev1.Pod) string {
	w.Helper()
	token, err := apiserver.Token(w.Context(), w.Kube, namespace, account, audience, pod)
	w.Must(err)
	return token
}

// Condition waits until a condition of an object has a status and a reason, and returns its
// message. Every condition that the kind has must be there then.
func (w *World) Condition(o client.Object, conditionType, status, reason string) string {
	w.Helper()
	var message string
	w.Eventually(fmt.Sprintf("%T %s has %s=%s, %s", o, o.GetName(), conditionType, status, reason), func() error {
		if err := w.Look(o); err != nil {
			return err
		}
		conditioned, ok := o.(crdv1.Conditioned)
		if !ok {
			return errors.New("it has no conditions")
		}
		conditions := *conditioned.StatusConditions()
		for _, t := range conditioned.ConditionTypes() {
			if crdv1.FindCondition(conditions, t) == nil {
				return fmt.Errorf("condition %s is not there", t)
			}
		}
		have := crdv1.FindCondition(conditions, conditionType)
		if have == nil {
			return errors.New("it is not there")
		}
		if have.Status != status || have.Reason != reason || have.ObservedGeneration != o.GetGeneration() {
			return fmt.Errorf("it is %+v", *have)
		}
		message = have.Message
		return nil
	})
	return message
}

// Says fails the test when a message lacks one of the parts.
func (w *World) Says(message string, parts ...string) {
	w.Helper()
	for _, part := range parts {
		if !strings.Contains(message, part) {
			w.Errorf("message %q does not contain %q", message, part)
		}
	}
}

// Gone waits until an object does not exist.
func (w *World) Gone(o client.Object) {
	w.Helper()
	w.Eventually(fmt.Sprintf("%T %s is deleted", o, o.GetName()), func() error {
		err := w.Look(o)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(fmt.Errorf("it has finalizers %v", o.GetFinalizers()), err)
	})
}
