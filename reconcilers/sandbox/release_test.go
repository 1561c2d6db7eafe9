package sandbox

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/reconcilers/routingconfig"
)

func TestMembersAreDeletedOnceNoGroupRoutesToThem(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	config := func(published int64, names ...string) groupRouting {
		c := &crdv1.RoutingConfig{ObjectMeta: metav1.ObjectMeta{Generation: 2}}
		for _, name := range names {
			c.Spec.SandboxedWorkloads = append(c.Spec.SandboxedWorkloads, crdv1.SandboxedWorkload{
				SandboxedWorkloadRef: crdv1.SandboxedWorkloadRef{Kind: crdv1.KindForkedWorkload, Namespace: "ns", Name: name}})
		}
		c.Status.Conditions = []crdv1.StatusCondition{{Type: crdv1.ConditionPublished, Status: "True", ObservedGeneration: published}}
		return groupRouting{"g", c}
	}
	for _, tt := range []struct {
		name string
		all  []groupRouting
		ago  time.Duration
		want string
	}{
		{"no group names the sandbox", nil, 0, ""},
		{"a group leads to a member", []groupRouting{config(2, "a")}, 0, "g"},
		{"it leads to others only, and the log says so", []groupRouting{config(2, "other")}, 0, ""},
		{"it has let go, and the log does not say so yet", []groupRouting{config(1)}, 0, "g"},
		{"one of two has not let go", []groupRouting{config(2), config(2, "a")}, 0, "g"},
		{"it has had its time", []groupRouting{config(2, "a")}, 11 * time.Second, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			since := metav1.NewTime(now.Add(-tt.ago))
			in := Input{
				Sandbox: &crdv1.SignadotSandbox{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &since}},
				Members: []crdv1.Member{&crdv1.ForkedWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}}},
			}
			if got := heldBy(in, tt.all, now); got != tt.want {
				t.Errorf("it is held by %q", got)
			}
		})
	}
}

// indexer makes the indexes of a client that has no cache.
type indexer struct{ *fake.ClientBuilder }

func (i indexer) IndexField(_ context.Context, o client.Object, field string, by client.IndexerFunc) error {
	i.WithIndex(o, field, by)
	return nil
}

func TestAGroupThatNamesASandboxNoMoreIsAskedAsLongAsItLeadsThere(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := crdv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	own := &crdv1.ForkedWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}}
	made := func(by, name, member string) *crdv1.RoutingConfig {
		c := &crdv1.RoutingConfig{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if by != "" {
			c.OwnerReferences = []metav1.OwnerReference{{APIVersion: crdv1.APIVersion, Kind: by, Name: "g", UID: "g", Controller: new(true)}}
		}
		c.Spec.SandboxedWorkloads = []crdv1.SandboxedWorkload{{SandboxedWorkloadRef: crdv1.SandboxedWorkloadRef{Kind: crdv1.KindForkedWorkload, Namespace: "ns", Name: member}}}
		return c
	}
	named := &crdv1.SignadotRouteGroup{ObjectMeta: metav1.ObjectMeta{Name: "g", UID: "g"}, Spec: crdv1.SignadotRouteGroupSpec{RoutingKey: "now", SandboxNames: []string{"sb"}}}
	for _, tt := range []struct {
		name string
		have []client.Object
		want int
	}{
		{"a group that names it", []client.Object{named, made(crdv1.KindRouteGroup, "now", "other")}, 1},
		{"a group that does not any more", []client.Object{made(crdv1.KindRouteGroup, "old", "a")}, 1},
		{"a group that has let go", []client.Object{made(crdv1.KindRouteGroup, "old", "other")}, 0},
		{"nobody waits for what was made by hand", []client.Object{made("", "hand", "a")}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(tt.have...)
			builder.WithIndex(&crdv1.SignadotRouteGroup{}, member.IndexGroup, member.SandboxesOf)
			if err := routingconfig.Index(t.Context(), indexer{builder}); err != nil {
				t.Fatal(err)
			}
			all, err := routedByGroups(t.Context(), builder.Build(), Input{
				Sandbox: &crdv1.SignadotSandbox{ObjectMeta: metav1.ObjectMeta{Name: "sb"}}, Members: []crdv1.Member{own}})
			if err != nil || len(all) != tt.want {
				t.Errorf("%d RoutingConfigs are looked at, not %d: %v", len(all), tt.want, err)
			}
		})
	}
}
