package delivery

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"switchyard.dev/controlplane-link/controlplane/model"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/workflows/sandboxes"
)

// Reasons of a status that the delivery itself reports. Others are those of the operator, and of the API server
// for a write that it has refused.
const (
	// ReasonForeign: the cluster has an object of that name with another manager.
	ReasonForeign = "ManagedByOther"
	// ReasonDeleted: the object was deleted in the cluster.
	ReasonDeleted = "DeletedInCluster"
	// ReasonNewer: the object is newer than the store, which is from a backup.
	ReasonNewer = "NewerInCluster"
	// ReasonInvalid: the specification does not compile.
	ReasonInvalid     = "InvalidSpecification"
	reasonTerminating = "Terminating"
)

// statusOf returns the status that an object reports. The fields of the store itself are those of before.
func statusOf(o crdv1.Object, before model.Status) model.Status {
	generation := generationOf(o)
	out := model.Status{Generation: generation, Applied: generation, Adopted: before.Adopted}
	var reported sandboxes.Status
	switch o := o.(type) {
	case *crdv1.SignadotSandbox:
		reported = sandboxes.SandboxOf(o).Status
		for _, x := range o.Status.ExternalWorkloads {
			connected := x.Tunnel != nil && x.Tunnel.Health != nil && x.Tunnel.Health.Connected
			out.Local = append(out.Local, model.Tunnel{Name: x.Name, Connected: connected})
		}
	case *crdv1.SignadotRouteGroup:
		reported, out.Matched = sandboxes.GroupOf(o).Status.Status, o.Spec.SandboxNames
	}
	out.Ready, out.Reason, out.Message = reported.Ready, reported.Reason, reported.Message
	if at, err := time.Parse(time.RFC3339, reported.ScheduledDeleteTime); err == nil {
		out.ScheduledDeleteTime = at.UTC()
	}
	if o.GetDeletionTimestamp() != nil {
		out.Ready, out.Reason, out.Message = false, reasonTerminating, "The object is being deleted in the cluster."
	}
	return out
}

// reported returns the status with a reason that is not the object's.
func reported(before model.Status, generation int64, reason, message string) model.Status {
	before.Generation, before.Ready, before.Reason, before.Message = generation, false, reason, message
	return before
}

// same reports whether two statuses are the same in the store.
func same(a, b model.Status) bool {
	one, _ := json.Marshal(a) // it has texts, numbers and times
	other, _ := json.Marshal(b)
	return bytes.Equal(one, other)
}

// generationOf returns the number of the control plane's version of an object; 0: it has none.
func generationOf(o metav1.Object) int64 {
	n, err := strconv.ParseInt(o.GetAnnotations()[crdv1.AnnotationGeneration], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// keyOf returns the routing key of an object.
func keyOf(o crdv1.Object) string {
	switch o := o.(type) {
	case *crdv1.SignadotSandbox:
		return o.Spec.ID
	case *crdv1.SignadotRouteGroup:
		return o.Spec.RoutingKey
	}
	return ""
}

// ManagedByOther returns the message for an object that does not belong to a row of the store: it names the
// manager that has written it last.
func ManagedByOther(o crdv1.Object, cluster string) string {
	manager, last := "another client", time.Time{}
	for _, m := range o.GetManagedFields() {
		if m.Subresource == "" && (m.Time == nil || !m.Time.Time.Before(last)) {
			manager = strconv.Quote(m.Manager)
			if m.Time != nil {
				last = m.Time.Time
			}
		}
	}
	return fmt.Sprintf("Cluster %s has an object of this name that is managed by %s: delete it there, or choose another name.", cluster, manager)
}

// strip removes what a cache need not keep of an object, and names of managers stay.
func strip(in any) (any, error) {
	o, is := in.(crdv1.Object)
	if !is {
		return in, nil
	}
	fields := o.GetManagedFields()
	for i := range fields {
		fields[i].FieldsV1 = nil
	}
	delete(o.GetAnnotations(), crdv1.AnnotationSpecification)
	delete(o.GetAnnotations(), crdv1.AnnotationLocal)
	if s, is := in.(*crdv1.SignadotSandbox); is {
		s.Spec = crdv1.SignadotSandboxSpec{ID: s.Spec.ID, Name: s.Spec.Name}
	}
	return in, nil
}

// authorIn returns the author that an object names, of an organisation.
func authorIn(o metav1.Object, org string) model.Author {
	user, _, _ := crdv1.AuthorOf(o.GetAnnotations()) // no author: the next write is one of the control plane itself
	prefix := crdv1.ControlPlanePrefix + org + ":"
	name, is := strings.CutPrefix(user.User, prefix)
	if !is {
		return model.Author{}
	}
	out := model.Author{Principal: model.Principal{Kind: model.KindUser, ID: name, Name: name}}
	for _, group := range user.Groups {
		if role, is := strings.CutPrefix(group, prefix); is {
			out.Role = model.Role(role)
		}
	}
	return out
}
