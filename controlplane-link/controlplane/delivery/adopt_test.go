package delivery_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"switchyard.dev/controlplane-link/controlplane/delivery"
	"switchyard.dev/controlplane-link/controlplane/model"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tests/world"
)

// left returns why Adopt leaves an object as it is.
func (s *site) left(name string) string {
	s.Helper()
	out, err := s.replica.Delivery.Adopt(s.Context(), org, prod, false)
	s.Must(err)
	if slices.Contains(out.Taken, "sandbox "+name) {
		s.Errorf("%s is taken: %+v", name, out)
	}
	for _, line := range out.Left {
		if because, is := strings.CutPrefix(line, "sandbox "+name+": "); is {
			return because
		}
	}
	return ""
}

// TestAGenerationThatAUserHasWritten does not become that of the organisation.
func TestAGenerationThatAUserHasWritten(t *testing.T) {
	s := newSite(t)
	name, key := unique("huge")
	o := s.applied(s.put(sandbox(name, key, "one")))
	world.Edit(s.World, o, func(o *crdv1.SignadotSandbox) {
		o.Annotations[crdv1.AnnotationGeneration] = strconv.FormatInt(1<<62, 10)
	})
	s.status(name, reason(delivery.ReasonNewer))
	if because := s.left(name); !strings.Contains(because, crdv1.AnnotationGeneration) || !strings.Contains(because, "delete it in cluster prod") {
		t.Errorf("left: %q", because)
	}
	if n, err := s.store.Generation(t.Context(), org); err != nil || n > 1<<41 {
		t.Errorf("the generation is %d, %v", n, err)
	}
	s.Remove(o) // the remedy
	s.status(name, func(st model.Status) bool { return st.Reason == delivery.ReasonDeleted && st.Newer == 0 })
	s.applied(s.put(sandbox(name, key, "two")))
}

// TestAnObjectOfAnotherCluster, which a user has copied, does not become the row of that cluster.
func TestAnObjectOfAnotherCluster(t *testing.T) {
	s := newSite(t)
	name, key := unique("copied")
	s.Must(s.store.CreateCluster(t.Context(), model.Cluster{Org: org, Name: "staging", CreatedAt: time.Now()}, event("cluster.create")))
	source := sandbox(name, key, "one")
	source.Cluster, source.Spec = "staging", []byte(strings.Replace(string(source.Spec), `"prod"`, `"staging"`, 1))
	source = s.put(source)
	o := &crdv1.SignadotSandbox{}
	o.Name, o.Spec.ID, o.Spec.Name = name, key, name
	o.Annotations = map[string]string{
		crdv1.AnnotationGeneration:    strconv.FormatInt(source.Generation+9, 10),
		crdv1.AnnotationSpecification: `{"spec":` + strings.Replace(string(source.Spec), "one", "copied", 1) + `}`,
	}
	s.Create(o)
	if because := s.left(name); !strings.Contains(because, "cluster staging") || !strings.Contains(because, "delete it in cluster prod") {
		t.Errorf("left: %q", because)
	}
	row, err := s.store.Sandbox(t.Context(), org, name)
	if err != nil || row.Generation != source.Generation || string(row.Spec) != string(source.Spec) {
		t.Errorf("the row: %+v, %v", row, err)
	}
}
