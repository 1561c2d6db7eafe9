package sandbox

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
)

func TestPartsHaveOneOrderForAnyOrderOfTheCache(t *testing.T) {
	fork := func(namespace, name string) crdv1.Member {
		return &crdv1.ForkedWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}
	virtual := &crdv1.VirtualWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "a"}}
	resource := func(name string) *crdv1.Resource { return &crdv1.Resource{ObjectMeta: metav1.ObjectMeta{Name: name}} }
	config := func(name string) crdv1.RoutingConfig {
		return crdv1.RoutingConfig{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	one := Input{
		Members:   []crdv1.Member{virtual, fork("n", "b"), fork("n", "a"), fork("m", "z")},
		Resources: []*crdv1.Resource{resource("b"), resource("a")}, Configs: []crdv1.RoutingConfig{config("b"), config("a")},
	}
	want := Input{
		Members:   []crdv1.Member{fork("m", "z"), fork("n", "a"), fork("n", "b"), virtual},
		Resources: []*crdv1.Resource{resource("a"), resource("b")}, Configs: []crdv1.RoutingConfig{config("a"), config("b")},
	}
	if diff := cmp.Diff(want, one.ordered()); diff != "" {
		t.Error(diff)
	}
	if one.Members[0] != crdv1.Member(virtual) {
		t.Error("what the cache gave was changed")
	}
}
