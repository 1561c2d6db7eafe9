package apply

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/condition"
)

// mostInTheWay is how many objects a message describes. Its command has all of them.
const mostInTheWay = 8

// InTheWay is an object with a name that the operator needs.
type InTheWay struct {
	// Object names it, as Describe does, and Argument as kubectl does, without its namespace.
	Object, Namespace, Argument string
	// Why is the reason why it is not adopted.
	Why string
}

// inTheWay names an object.
func inTheWay(o client.Object, why string) InTheWay {
	gvk := o.GetObjectKind().GroupVersionKind()
	return InTheWay{Object: Describe(o), Namespace: o.GetNamespace(), Argument: resourceArgument(gvk, o), Why: why}
}

// taken is the refusal of an object: another one of its kind has its name.
func taken(want client.Object, have metav1.Object) *Refusal {
	return Taken(inTheWay(want, notRestored(want, have)))
}

// differs is the refusal of a restored object that is not as the operator would create it.
func differs(want client.Object) *Refusal {
	return Taken(inTheWay(want, "differs from what the operator would create"))
}

// notRestored returns the reason why an object does not belong to the operator.
func notRestored(want client.Object, have metav1.Object) string {
	if owner := metav1.GetControllerOfNoCopy(have); owner != nil {
		return fmt.Sprintf("belongs to %s %s with UID %s", owner.Kind, owner.Name, owner.UID)
	}
	if have.GetDeletionTimestamp() != nil {
		return "is being deleted"
	}
	for _, label := range []string{crdv1.LabelSandbox, crdv1.LabelRouteGroup} {
		if value := want.GetLabels()[label]; value != "" {
			return fmt.Sprintf("lacks the label %s=%s", label, value)
		}
	}
	return "was not created by the operator"
}

// Taken is the refusal of all objects with names that these have. Its message has one command that
// deletes them. One may be given twice.
func Taken(all ...InTheWay) *Refusal {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b InTheWay) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Argument, b.Argument))
	})
	all = slices.CompactFunc(all, func(a, b InTheWay) bool { return a.Namespace == b.Namespace && a.Argument == b.Argument })
	var described, commands []string
	for i, o := range all {
		described = append(described, fmt.Sprintf("%s (%s)", o.Object, o.Why))
		if i == 0 || o.Namespace != all[i-1].Namespace {
			commands = append(commands, strings.TrimSpace("kubectl delete "+inNamespace(o.Namespace)))
		}
		commands[len(commands)-1] += " " + o.Argument
	}
	return &Refusal{Reason: ReasonNameTaken, InTheWay: all, Message: fmt.Sprintf(
		"Objects exist already that the operator needs to create, and it leaves them alone: %s. If nothing else needs them, delete them, and the operator continues by itself: %s",
		condition.List(described, mostInTheWay, ", "), strings.Join(commands, " && "))}
}

// inNamespace is the option of kubectl that names a namespace.
func inNamespace(namespace string) string {
	if namespace == "" {
		return ""
	}
	return "-n " + namespace
}

// Together returns one refusal that names all objects that are in the way: those of the refusals, and
// more of them; nil when there are none.
func Together(more []InTheWay, refusals ...*Refusal) *Refusal {
	all := []InTheWay(nil)
	for _, r := range refusals {
		if r != nil {
			all = append(all, r.InTheWay...)
		}
	}
	if all = append(all, more...); len(all) == 0 {
		return nil
	}
	return Taken(all...) // Of an object given twice the first is kept, which has the better reason.
}

// Unowned returns the objects of the kinds of these empty lists that have the label and no
// controller, from the cache.
func (w Writer) Unowned(ctx context.Context, label, value string, lists ...client.ObjectList) ([]InTheWay, error) {
	var out []InTheWay
	for _, list := range lists {
		fresh, ok := list.DeepCopyObject().(client.ObjectList)
		if !ok {
			return nil, fmt.Errorf("%T is not a list", list)
		}
		if err := w.Client.List(ctx, fresh, client.MatchingLabels{label: value}, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("look for objects with the label %s=%s: %w", label, value, err)
		}
		err := meta.EachListItem(fresh, func(item runtime.Object) error {
			o, ok := item.(client.Object)
			if !ok || metav1.GetControllerOfNoCopy(o) != nil || o.GetDeletionTimestamp() != nil {
				return nil
			}
			gvk, err := w.Client.GroupVersionKindFor(o)
			if err != nil {
				return err
			}
			named := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: o.GetNamespace(), Name: o.GetName()}}
			named.SetGroupVersionKind(gvk)
			out = append(out, inTheWay(named, "has no owner"))
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}
