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

// IndexMaker is the name of an index that finds what objects of ours made, by the kind and
// the name of the object; MakerOf is what it is made with. A name alone never makes something
// ours: see DeleteOrphans.
const IndexMaker = "metadata.controller.maker"

// MakerOf returns the object of ours that is the controller of an object, if one is.
func MakerOf(o client.Object) []string {
	ref := metav1.GetControllerOfNoCopy(o)
	if ref == nil || ref.APIVersion != crdv1.APIVersion {
		return nil
	}
	return []string{Maker{Kind: ref.Kind, Name: ref.Name}.index()}
}

// Maker is an object of ours that makes others, by its name, whichever life it is in. What one
// with a namespace makes is in the same namespace.
type Maker struct{ Kind, Namespace, Name string }

// index returns the value of IndexMaker.
func (m Maker) index() string { return m.Kind + "/" + m.Name }

// DeleteMade deletes what objects of this kind and name made, of the kinds of these empty
// lists, where condemned says so of the UID of the one that made it, and reports whether it
// said so of any. What is being deleted already counts as well. It reads from the cache.
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
			yes, err := condemned(metav1.GetControllerOfNoCopy(o).UID)
			if err != nil || !yes {
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

// DeleteOrphans deletes what former objects of this kind and name have left, and reports
// whether there is something. That is what was made by an object which is neither the one in
// the cache (known; empty when the cache has none) nor the one that the API server has. The API
// server is asked only where something is left: the cache may not have heard that the object
// is gone, or that there is a new one. So nothing depends on the garbage collection of the
// cluster, which does the same in its own time.
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
