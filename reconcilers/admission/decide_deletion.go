package admission

import (
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/workflows/spec"
)

// deletion adds the right to delete an object if the change causes its deletion: by a lifetime that
// ends earlier, or by an owner with which it is garbage-collected. It does not apply to new objects.
func (d *deciding) deletion() {
	after, is := d.Object.(crdv1.Object)
	if d.Before == nil || !is {
		return
	}
	access := Access{Verb: "delete", Group: crdv1.Group, Resource: d.Resource, Namespace: d.Before.GetNamespace(), Name: d.Before.GetName()}
	if sooner(d.Before, after) {
		d.want(Want{
			Access: access, Purpose: "set or shorten its lifetime",
			At: "metadata.annotations[" + crdv1.AnnotationTTL + "]", Instead: "leave the lifetime as it is",
		})
	}
	if d.Change.Owners {
		d.want(Want{
			Access: access, Purpose: "give it an owner with which it is deleted",
			At: "metadata.ownerReferences", Instead: "leave the owners as they are",
		})
	}
}

// sooner reports whether a sandbox expires earlier than before. A lifetime that cannot be
// read never ends.
func sooner(before, after crdv1.Object) bool {
	if _, is := after.(*crdv1.SignadotSandbox); !is {
		return false
	}
	aged, _ := after.DeepCopyObject().(crdv1.Object)
	aged.SetCreationTimestamp(before.GetCreationTimestamp())
	end, ends, err := spec.Expires(aged)
	if err != nil || !ends {
		return false
	}
	was, ended, err := spec.Expires(before)
	return err != nil || !ended || end.Before(was)
}
