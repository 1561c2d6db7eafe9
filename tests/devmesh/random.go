package devmesh

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"

	"switchyard.dev/eventbus/event"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/tests/devmesh/control"
)

// oddKeys are routing keys that are hard to carry, escape, split or sort.
var oddKeys = []string{
	"plain", "PLAIN", "Plain", "a/b", "8080/plain", "/", "k=v", "a;b", "a,b", "a b", " padded ", "%", "%41", "%%", "%REQ(host)%", `"quoted"`,
	`back\slash`, `\1`, "ключ", "キー", "e\u0301", "\u00e9", "{json}", "<xml>&", "'", "..", "*", "\t", "00", "0", "true", "null", strings.Repeat("k", 250),
}

// oddSandboxes are names of sandboxes of that sort.
var oddSandboxes = []string{"plain", "with space", "100%", "%s", "%%%", "ключ", `"quoted"`, "a\nb", "x=y;z", strings.Repeat("s", 120)}

// randomFacts generates changes of all kinds, including unusual ones. The same seed produces the
// same changes.
type randomFacts struct {
	random    *rand.Rand
	baselines int
}

const (
	randomMembers = 60
	ordinaryKeys  = 40
)

// fill states every member and every key once.
func (r *randomFacts) fill(c *control.Plane) error {
	for i := range randomMembers {
		if _, err := c.State(event.Workload(forkKind, control.Namespace, memberName(i)), r.observed(memberName(i))); err != nil {
			return err
		}
	}
	for i := range ordinaryKeys + len(oddKeys) {
		if _, err := c.State(event.RoutingKey(keyNumber(i)), r.declared(keyNumber(i))); err != nil {
			return err
		}
	}
	return nil
}

// state states some change.
func (r *randomFacts) state(c *control.Plane) (event.Pos, error) {
	switch n := r.random.IntN(20); {
	case n < 10:
		o := r.observed(r.member())
		return c.State(event.Workload(forkKind, control.Namespace, o.GetWorkload().GetName()), o)
	case n < 12:
		name := r.member()
		return c.State(event.Workload(forkKind, control.Namespace, name), &factv1.WorkloadWithdrawn{
			Workload: &factv1.ObjectRef{Kind: forkKind, Namespace: control.Namespace, Name: name},
		})
	case n < 18:
		d := r.declared(r.key())
		return c.State(event.RoutingKey(d.GetRoutingKey()), d)
	}
	key := r.key()
	return c.State(event.RoutingKey(key), &factv1.RoutingWithdrawn{RoutingKey: key})
}

func (r *randomFacts) member() string { return memberName(r.random.IntN(randomMembers)) }
func (r *randomFacts) key() string    { return keyNumber(r.random.IntN(ordinaryKeys + len(oddKeys))) }

func memberName(i int) string { return fmt.Sprintf("member-%d", i) }

// keyNumber returns the ordinary keys and then the odd ones.
func keyNumber(i int) string {
	if i >= ordinaryKeys {
		return oddKeys[i-ordinaryKeys]
	}
	return fmt.Sprintf("key-%d", i)
}

func (r *randomFacts) declared(key string) *factv1.RoutingDeclared {
	d := &factv1.RoutingDeclared{RoutingKey: key, Owner: &factv1.ObjectRef{Kind: "SignadotRouteGroup", Name: "any"}}
	for range 1 + r.random.IntN(3) {
		m := &factv1.Member{Kind: forkKind, Namespace: control.Namespace, Name: r.member(), Sandbox: oddSandboxes[r.random.IntN(len(oddSandboxes))]}
		if r.random.IntN(3) > 0 { // While the member does not exist, its baseline has a rule that is never ready.
			m.Baseline, m.Services = r.represents(m.GetName(), func() string { return "" })
		}
		d.Members = append(d.Members, m)
	}
	return d
}

// addresses are cluster IPs of all kinds.
func (r *randomFacts) address() string {
	switch r.random.IntN(8) {
	case 0:
		return ""
	case 1:
		return "None"
	case 2:
		return fmt.Sprintf("fd00:96::%x", 1+r.random.IntN(200))
	}
	return fmt.Sprintf("10.96.8.%d", 1+r.random.IntN(200))
}

func (r *randomFacts) observed(name string) *factv1.WorkloadObserved {
	o := &factv1.WorkloadObserved{
		Workload: &factv1.ObjectRef{Kind: forkKind, Namespace: control.Namespace, Name: name, Uid: "uid-" + name},
		Created:  &timestamppb.Timestamp{Seconds: int64(r.random.IntN(1000))},
		Ready:    r.random.IntN(4) > 0, DevMeshPresent: true,
	}
	o.Baseline, o.Services = r.represents(name, r.address)
	return o
}

// represents returns some baseline, and Services of it that a member has, with these addresses.
func (r *randomFacts) represents(name string, address func() string) (*factv1.ObjectRef, []*factv1.ServicePair) {
	baseline := workloads[r.random.IntN(r.baselines)]
	var services []*factv1.ServicePair
	for i := range r.random.IntN(3) {
		pair := &factv1.ServicePair{From: fmt.Sprintf("%s-%d", baseline.Name, i), To: fmt.Sprintf("%s-%d", name, i), ClusterIp: address()}
		for _, port := range []uint32{80, 443, 9090, 65535}[:1+r.random.IntN(4)] {
			pair.Ports = append(pair.Ports, &factv1.PortPair{Port: port, WorkloadPort: []uint32{8080, 8081, 1, 65535}[r.random.IntN(4)]})
		}
		services = append(services, pair)
	}
	return &factv1.ObjectRef{Kind: baseline.Kind, Namespace: baseline.Namespace, Name: baseline.Name}, services
}
