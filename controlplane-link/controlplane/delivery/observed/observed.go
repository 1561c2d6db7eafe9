// Package observed states what a cluster reports about the object of a row, as the status that the store keeps. It is pure.
package observed

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
	// ReasonDeleted: the object was deleted in the cluster.
	ReasonDeleted = "DeletedInCluster"
	// ReasonNewer: the object is newer than the store, which is from a backup.
	ReasonNewer = "NewerInCluster"
	// ReasonInvalid: the specification does not compile.
	ReasonInvalid = "InvalidSpecification"
	// ReasonRefused: the write is refused without a reason of its own.
	ReasonRefused     = "Refused"
	reasonTerminating = "Terminating"
)

// StatusOf returns the status that an object reports.
func StatusOf(o crdv1.Object, before model.Status) model.Status {
	generation := crdv1.GenerationOf(o)
	out := model.Status{Generation: generation, Applied: generation, Attempted: before.Attempted, Adopted: before.Adopted}
	var of sandboxes.Status
	switch o := o.(type) {
	case *crdv1.SignadotSandbox:
		of = sandboxes.SandboxOf(o).Status
		for _, x := range o.Status.ExternalWorkloads {
			connected := x.Tunnel != nil && x.Tunnel.Health != nil && x.Tunnel.Health.Connected
			out.Local = append(out.Local, model.Tunnel{Name: x.Name, Connected: connected})
		}
	case *crdv1.SignadotRouteGroup:
		of, out.Matched = sandboxes.GroupOf(o).Status.Status, o.Spec.SandboxNames
	}
	out.Ready, out.Reason, out.Message = of.Ready, of.Reason, of.Message
	if at, err := time.Parse(time.RFC3339, of.ScheduledDeleteTime); err == nil {
		out.ScheduledDeleteTime = at.UTC()
	}
	if o.GetDeletionTimestamp() != nil {
		out.Ready, out.Reason, out.Message = false, reasonTerminating, "The object is being deleted in the cluster."
	}
	return out
}

// Because returns a status of a generation with a reason that is not the object's.
func Because(before model.Status, generation int64, reason, message string) model.Status {
	before.Generation, before.Ready, before.Reason, before.Message = generation, false, reason, message
	return before
}

// Same reports whether two statuses are the same in the store.
func Same[S model.Status | model.Attempt](a, b S) bool {
	one, _ := json.Marshal(a) // it has texts, numbers and times
	other, _ := json.Marshal(b)
	return bytes.Equal(one, other)
}

// ManagedByOther returns the message about an object that has another manager than the control plane, the one
// that has written it last, or is of another row.
func ManagedByOther(o metav1.Object, cluster string) string {
	if crdv1.GenerationOf(o) > 0 {
		return fmt.Sprintf("Cluster %s has an object of this name that a control plane has written for another row (of a restored store?): "+
			"run controlplane adopt --dry-run %[1]s, and delete this sandbox or route group before the adoption, or delete the object there.", cluster)
	}
	manager, last := "another client", time.Time{}
	for _, m := range o.GetManagedFields() {
		if m.Subresource == "" && m.Time != nil && !m.Time.Time.Before(last) {
			manager, last = strconv.Quote(m.Manager), m.Time.Time
		}
	}
	return fmt.Sprintf("Cluster %s has an object of this name that is managed by %s: delete it there, or choose another name.", cluster, manager)
}

// AuthorOf returns the author that an object of an organisation names; none: the control plane itself.
func AuthorOf(o metav1.Object, org string) (a model.Author) {
	user, _, _ := crdv1.AuthorOf(o.GetAnnotations()) // one that cannot be read counts as none
	prefix := crdv1.ControlPlanePrefix + org + ":"
	if name, is := strings.CutPrefix(user.User, prefix); is {
		a.Principal = model.Principal{Kind: model.KindUser, ID: name, Name: name}
	}
	for _, group := range user.Groups {
		if role, is := strings.CutPrefix(group, prefix); is {
			a.Role = model.Role(role)
		}
	}
	return a
}
