package paged

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"switchyard.dev/tests/world"
)

func TestMain(m *testing.M) { world.Main(m) }

func TestAllPagesOfAListAreRead(t *testing.T) {
	w := world.Shared(t)
	w.Namespaces("paged")
	for _, name := range []string{"a", "b", "c", "d"} {
		w.Create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "paged", Name: name}})
	}
	for size := range int64(5) {
		var names []string
		w.Must(Each(t.Context(), w.Client, "paged", size+1, func(l *corev1.ServiceAccountList) {
			for i := range l.Items {
				names = append(names, l.Items[i].Name)
			}
		}))
		slices.Sort(names)
		if got := fmt.Sprint(names); got != "[a b c d]" {
			t.Errorf("in pages of %d: %s", size+1, got)
		}
	}
}
