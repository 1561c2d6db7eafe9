package apply

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
)

// IndexMaker is the name of an index of the objects that the operator's objects control, by kind and
// name of the controller; MakerOf is its index function. A name alone never proves ownership: see
// DeleteOrphans.
const IndexMaker = "metadata.controller.maker"

// MakerOf returns the index value of the controller of an object, if it is one of the operator's
// objects.
func MakerOf(o client.Object) []string {
	ref := metav1.GetControllerOfNoCopy(o)
	if ref == nil || ref.APIVersion != crdv1.APIVersion {
		return nil
	}
	return []string{Maker{Kind: ref.Kind, Name: ref.Name}.index()}
}

// Maker is one of the operator's objects that controls others, by name, regardless of its UID. If it
// has a namespace, so have the others.
type Maker struct{ Kind, Namespace, Name string }

// index returns the value of IndexMaker.
func (m Maker) index() string { return m.Kind + "/" + m.Name }

// DeleteMade deletes objects of the kinds of these empty lists that m controls, if condemned returns
// true for the UID of the controller, and reports whether it did for any. Objects that are being
// deleted already count. It reads from the cache.
func (w Writer) DeleteMade(ctx context.Context, m Maker, lists []client.ObjectList, condemned func(maker types.UID) (bool, error)) (left bool, err error) {
	var refused []error // One that is refused keeps no other.
	for _, list := range lists {
		fresh, ok := list.DeepCopyObject().(client.ObjectList)
		if !ok {
			return left, fmt.Errorf("%T is not a list", list)
		}
		err := w.Client.List(ctx, fresh, client.InNamespace(m.Namespace), client.MatchingFields{IndexMaker: m.index()}, client.UnsafeDisableDeepCopy)
		if err != nil {
			return left, fmt.Errorf("look for what %s %s has left: %w", m.Kind, strings.TrimPrefix(m.Namespace+"/"+m.Name, "/"), err)
		}
		err = meta.EachListItem(fresh, func(item runtime.Object) error {
			o, ok := item.(client.Object)
			if !ok {
				return fmt.Errorf("%T is not an object", item)
			}
			if yes, err := condemned(metav1.GetControllerOfNoCopy(o).UID); err != nil || !yes {
				return err
			}
			left = true
			refused = append(refused, w.Delete(ctx, o))
			return nil
		})
		if err != nil {
			return left, errors.Join(append(refused, err)...)
		}
	}
	return left, errors.Join(refused...)
}

// DeleteOrphans deletes the remaining objects of previous objects with this kind and name, and reports
// whether there are any. Those have a controller which is neither the object in the cache (known; empty
// if it has none) nor the one in the API server. The API server is read only if such objects exist,
// since the cache may lack a deletion or a new object. It makes cleanup independent of the cluster's
// garbage collector.
func (w Writer) DeleteOrphans(ctx context.Context, m Maker, known types.UID, lists ...client.ObjectList) (left bool, err error) {
	asked, live := false, types.UID("")
	return w.DeleteMade(ctx, m, lists, func(maker types.UID) (bool, error) {
		if maker == known {
			return false, nil
		}
		if !asked {
			var err error
			if live, err = w.LiveUID(ctx, crdv1.GroupVersion().WithKind(m.Kind), client.ObjectKey{Namespace: m.Namespace, Name: m.Name}); err != nil {
				return false, err
			}
			asked = true
		}
		return maker != live, nil
	})
}
