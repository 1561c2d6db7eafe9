package delivery

import (
	"strconv"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"switchyard.dev/controlplane-link/controlplane/model"
	crdv1 "switchyard.dev/protos/crd/v1"
)

// TestDecide covers each step, with the states beside it that have another one.
func TestDecide(t *testing.T) {
	now, created := time.Unix(1000, 0), time.Unix(500, 0)
	row := func(generation int64, part model.Status) *entry {
		return &entry{Sandbox: model.Sandbox{Generation: generation, RoutingKey: "k"}, part: part}
	}
	dead := func(part model.Status) *entry {
		e := row(7, part)
		e.DeletedAt = now
		return e
	}
	object := func(generation int64, key string) crdv1.Object {
		o := &crdv1.SignadotSandbox{Spec: crdv1.SignadotSandboxSpec{ID: key}}
		o.CreationTimestamp = metav1.NewTime(created)
		if generation > 0 {
			o.Annotations = map[string]string{crdv1.AnnotationGeneration: strconv.FormatInt(generation, 10)}
		}
		return o
	}
	made := func(e *entry) *entry {
		e.CreatedAt = created
		return e
	}
	deleting := func(o crdv1.Object) crdv1.Object {
		o.SetDeletionTimestamp(&metav1.Time{Time: now})
		return o
	}
	var none, applied model.Status
	applied.Applied = 7
	attempted := model.Status{Applied: 6, Attempted: 7}
	ends := func(at time.Time, applied int64) model.Status {
		return model.Status{Applied: applied, ScheduledDeleteTime: at}
	}
	for name, c := range map[string]struct {
		e *entry
		o crdv1.Object
		// listed is the step with an object of a list, confirmed that with one of the API server.
		listed, confirmed step
	}{
		"a new row":                            {row(7, none), nil, confirm, apply},
		"a row that was never seen there":      {row(7, model.Status{Applied: 6}), nil, confirm, apply},
		"an attempt that failed":               {row(7, attempted), nil, confirm, apply},
		"an older object":                      {row(7, model.Status{Applied: 6}), object(6, "k"), apply, apply},
		"an object that lost its number":       {row(7, applied), object(0, "k"), apply, apply},
		"the object":                           {row(7, attempted), object(7, "k"), observe, observe},
		"the object, once observed":            {row(7, applied), object(7, "k"), observe, observe},
		"an older object that is deleted":      {row(7, applied), deleting(object(6, "k")), observe, observe},
		"it was deleted in the cluster":        {row(7, applied), nil, confirm, missing},
		"its lifetime has ended":               {row(7, ends(now, 7)), nil, confirm, expire},
		"it was deleted before its end":        {row(7, ends(now.Add(1), 7)), nil, confirm, missing},
		"written again after its end":          {row(7, ends(now, 6)), nil, confirm, apply},
		"an object of another manager":         {row(7, none), object(0, "other"), confirm, foreign},
		"an object of another row":             {row(7, none), object(3, "other"), confirm, foreign},
		"a newer object":                       {row(7, attempted), object(8, "k"), newer, newer},
		"one that this store never wrote":      {row(7, none), object(7, "k"), newer, newer},
		"a newer one, and written since":       {row(20, model.Status{Applied: 5, Attempted: 5}), object(8, "k"), newer, newer},
		"once newer, and written since":        {row(9, model.Status{Newer: 8}), object(8, "k"), newer, newer},
		"newer and adopted":                    {row(7, model.Status{Newer: 8, Adopted: 8}), object(8, "k"), newer, newer},
		"adopted, and written since":           {row(9, model.Status{Newer: 8, Adopted: 8}), object(8, "k"), apply, apply},
		"adopted, and written there since":     {row(12, model.Status{Newer: 8, Adopted: 8}), object(10, "k"), newer, newer},
		"a row made of the object":             {made(row(9, none)), object(8, "k"), apply, apply},
		"one made of it, with a newer one":     {made(row(9, applied)), object(8, "k"), newer, newer},
		"a newer object that is being deleted": {row(7, attempted), deleting(object(8, "k")), newer, newer},
		"a tombstone":                          {dead(applied), object(7, "k"), remove, remove},
		"a tombstone of an older object":       {dead(attempted), object(6, "k"), remove, remove},
		"a tombstone of a newer object":        {dead(model.Status{Applied: 5, Attempted: 5}), object(6, "k"), newer, newer},
		"a tombstone, newer and adopted":       {dead(model.Status{Newer: 8, Adopted: 8}), object(8, "k"), remove, remove},
		"a tombstone, once newer":              {dead(model.Status{Newer: 8, Applied: 7}), object(7, "k"), newer, newer},
		"a tombstone of an object that ends":   {dead(applied), deleting(object(7, "k")), observe, observe},
		"a tombstone without an object":        {dead(none), nil, confirm, finish},
		"a tombstone, and another's object":    {dead(none), object(0, "other"), confirm, finish},
		"a tombstone, and a newer row's":       {dead(none), object(9, "other"), confirm, finish},
		"a tombstone after the end":            {dead(ends(now, 7)), nil, confirm, finish},
	} {
		if got := decide(c.e, c.o, false, now); got != c.listed {
			t.Errorf("%s, in a list: step %d, not %d", name, got, c.listed)
		}
		if got := decide(c.e, c.o, true, now); got != c.confirmed {
			t.Errorf("%s: step %d, not %d", name, got, c.confirmed)
		}
	}
}
