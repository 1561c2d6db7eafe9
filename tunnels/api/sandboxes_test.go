package api

import (
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	crdv1 "switchyard.dev/protos/crd/v1"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
)

// member is an external workload that an object of a kind controls, with a port, as author wrote it.
func member(owner metav1.OwnerReference, name, author string, ports ...crdv1.TunnelPort) crdv1.SignadotExternalWorkload {
	o := crdv1.SignadotExternalWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "m", OwnerReferences: []metav1.OwnerReference{owner},
		Annotations: map[string]string{crdv1.AnnotationAuthor: crdv1.Author{User: author}.String()}}}
	o.Spec.Name, o.Spec.Tunnel = name, &crdv1.TunnelSpec{BaselineToLocals: ports}
	return o
}

func controlledBy(apiVersion, kind, name, uid string) metav1.OwnerReference {
	yes := true
	return metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: name, UID: types.UID(uid), Controller: &yes}
}

// A workstation opens the addresses of its user's sandbox without a question, and another user can
// have written the sandbox's external workload. So an address is reported only if the sandbox's
// specification has it, for the same workload and port.
func TestOnlyAddressesOfTheSpecificationAreReported(t *testing.T) {
	sb := &crdv1.SignadotSandbox{ObjectMeta: metav1.ObjectMeta{Name: "hers", UID: "s", Annotations: map[string]string{crdv1.AnnotationAuthor: crdv1.Author{User: "ada"}.String()}}}
	sb.Spec.ExternalWorkloads = []crdv1.SandboxExternalWorkload{
		{Name: "cart", Tunnel: &crdv1.TunnelSpec{BaselineToLocals: []crdv1.TunnelPort{{BaselinePort: 80, LocalAddress: "localhost:3000"}, {BaselinePort: 81, LocalAddress: "localhost:3001"}}}},
		{Name: "prices", Tunnel: &crdv1.TunnelSpec{BaselineToLocals: []crdv1.TunnelPort{{BaselinePort: 80, LocalAddress: "localhost:4000"}}}},
		{Name: "elsewhere"},
	}
	port := func(baseline int32, local string) crdv1.TunnelPort {
		return crdv1.TunnelPort{BaselinePort: baseline, LocalAddress: local}
	}
	owner := controlledBy(crdv1.APIVersion, crdv1.KindSandbox, "hers", "s")
	for what, c := range map[string]struct {
		member string
		ports  []crdv1.TunnelPort
		want   string
	}{
		"as specified":                {"cart", []crdv1.TunnelPort{port(80, "localhost:3000"), port(81, "localhost:3001")}, "[80=localhost:3000 81=localhost:3001]"},
		"another address":             {"cart", []crdv1.TunnelPort{port(80, "localhost:2375"), port(81, "localhost:3001")}, "[81=localhost:3001]"},
		"another spelling":            {"cart", []crdv1.TunnelPort{port(80, "127.0.0.1:3000")}, "[]"},
		"another port":                {"cart", []crdv1.TunnelPort{port(82, "localhost:3000")}, "[]"},
		"ports exchanged":             {"cart", []crdv1.TunnelPort{port(80, "localhost:3001"), port(81, "localhost:3000")}, "[]"},
		"another workload's address":  {"cart", []crdv1.TunnelPort{port(80, "localhost:4000")}, "[]"},
		"a workload without a tunnel": {"elsewhere", []crdv1.TunnelPort{port(80, "localhost:3000")}, "[]"},
		"an unspecified workload":     {"docker", []crdv1.TunnelPort{port(80, "localhost:2375")}, "[]"},
	} {
		for _, author := range []string{"ada", "bob"} {
			m, got := member(owner, c.member, author, c.ports...), []string{}
			for _, p := range localWorkload(&m, sb).WorkloadPortMapping {
				got = append(got, fmt.Sprintf("%d=%s", p.Baseline, p.LocalAddress))
			}
			if fmt.Sprint(got) != c.want {
				t.Errorf("%s, written by %s: %v, not %s", what, author, got, c.want)
			}
		}
	}
	if one := localSandbox(sb, "bob"); one.CallerIsAuthor || !localSandbox(sb, "ada").CallerIsAuthor {
		t.Errorf("the author of the sandbox is reported as %v", one)
	}
}

// An external workload belongs to the sandbox that its owner reference names by UID: any user can
// write the name of another user's sandbox.
func TestExternalWorkloadsBelongToASandboxByUID(t *testing.T) {
	deleted := member(controlledBy(crdv1.APIVersion, crdv1.KindSandbox, "hers", "s"), "deleted", "ada")
	deleted.DeletionTimestamp = &metav1.Time{}
	reference := controlledBy(crdv1.APIVersion, crdv1.KindSandbox, "hers", "s")
	reference.Controller = nil
	all := []crdv1.SignadotExternalWorkload{
		member(controlledBy(crdv1.APIVersion, crdv1.KindSandbox, "hers", "s"), "cart", "ada"),
		member(controlledBy(crdv1.APIVersion, crdv1.KindSandbox, "hers", ""), "no UID", "bob"),
		member(controlledBy(crdv1.APIVersion, crdv1.KindSandbox, "hers", "b"), "another UID", "bob"),
		member(controlledBy("example.com/v1", crdv1.KindSandbox, "hers", "s"), "another group", "bob"),
		member(controlledBy(crdv1.APIVersion, crdv1.KindRouteGroup, "hers", "s"), "another kind", "bob"),
		member(reference, "not controlled", "bob"),
		deleted,
	}
	var names []string
	for _, w := range localWorkloads(all)["s"] {
		names = append(names, w.Spec.Name)
	}
	if fmt.Sprint(names) != "[cart]" {
		t.Errorf("the sandbox has %v", names)
	}
}

// The sandboxes that are not selected are named by their names' order, and the caller's rights to them
// are not asked at every look.
func TestSandboxesThatAreNotSelectedAreNamedInOrder(t *testing.T) {
	var names []string
	for i := range 300 {
		names = append(names, fmt.Sprintf("s%03d", (i*7)%300))
	}
	for what, c := range map[string]struct {
		granted     func(string) bool
		first, last string
		n, asked    int
		more        int32
	}{
		"all":   {func(string) bool { return true }, "s000", "s019", maxOthers, maxOthers, 280},
		"half":  {func(name string) bool { return name[3]%2 == 1 }, "s001", "s039", maxOthers, 40, 260},
		"none":  {func(string) bool { return false }, "", "", 0, maxAsked, 200},
		"three": {func(name string) bool { return name <= "s002" }, "s000", "s002", 3, maxAsked, 200},
	} {
		var u unselected
		asked := 0
		may := func(name string) *tunnelv1.Refused {
			if asked++; c.granted(name) {
				return nil
			}
			return &tunnelv1.Refused{Reason: tunnelv1.Reason_REASON_FORBIDDEN}
		}
		for range 3 {
			if err := u.check(slices.Clone(names), may); err != nil {
				t.Fatal(err)
			}
		}
		if len(u.granted) != c.n || u.more != c.more || asked != c.asked || c.n > 0 && (u.granted[0] != c.first || u.granted[c.n-1] != c.last) {
			t.Errorf("%s: %v and %d more, after %d questions", what, u.granted, u.more, asked)
		}
		if err := u.check([]string{"s000"}, may); err != nil || asked != c.asked+1 || u.more != 0 {
			t.Errorf("%s, of another list: %v, %d questions, %d more", what, err, asked, u.more)
		}
	}
	var u unselected
	if err := u.check([]string{"a"}, func(string) *tunnelv1.Refused {
		return &tunnelv1.Refused{Reason: tunnelv1.Reason_REASON_UNAVAILABLE}
	}); err == nil || u.names != nil {
		t.Error("what could not be asked counts as asked")
	}
}
