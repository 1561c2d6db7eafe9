package dryrun_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/event"
	crdv1 "switchyard.dev/protos/crd/v1"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/dryrun"
	"switchyard.dev/reconcilers/fork/power"
)

// known returns the fact as text, without the values that a dry run cannot know: readiness of pods,
// addresses, UIDs and creation times. It is empty for withdrawals.
func known(f event.Fact) string {
	data := proto.Clone(f.Data)
	switch d := data.(type) {
	case *factv1.RoutingDeclared:
		d.Owner.Uid, d.Since = "", nil
	case *factv1.WorkloadObserved:
		d.Workload.Uid, d.Baseline.Uid, d.Created, d.Ready = "", "", nil, false
		for _, s := range d.GetServices() {
			s.ClusterIp = ""
		}
	default:
		return ""
	}
	text, err := protojson.Marshal(data)
	if err != nil {
		return err.Error()
	}
	return strings.ReplaceAll(fmt.Sprintf("%s %s %s", text, f.Cause.Kind, f.Cause.Name), " ", "")
}

// after returns the facts of the log after the statements.
func after(said map[event.Key]event.Fact, statements []event.Fact) map[event.Key]string {
	out := map[event.Key]string{}
	put := func(f event.Fact) {
		delete(out, f.Key)
		if text := known(f); text != "" {
			out[f.Key] = text
		}
	}
	for _, f := range said {
		put(f)
	}
	for _, f := range statements {
		put(f)
	}
	return out
}

// come checks that the real changes are those of the plan.
func (c *cluster) come(p dryrun.Plan, before map[event.Key]event.Fact) {
	c.Helper()
	want := after(before, p.Statements)
	var diff string
	c.Eventually("what the dry run says comes true", func() error {
		if diff = gocmp.Diff(want, after(c.said(), nil)); diff != "" {
			return fmt.Errorf("the log says (+) and the dry run said (-):\n%s", diff)
		}
		return nil
	})
	for _, change := range p.Changes {
		c.Eventually(fmt.Sprintf("%s %s comes true", change.Action, change.Object), func() error {
			o := map[string]client.Object{
				crdv1.KindSandbox: &crdv1.SignadotSandbox{}, crdv1.KindForkedWorkload: &crdv1.ForkedWorkload{},
				crdv1.KindExternalWorkload: &crdv1.SignadotExternalWorkload{}, crdv1.KindVirtualWorkload: &crdv1.VirtualWorkload{},
				crdv1.KindRouteGroup: &crdv1.SignadotRouteGroup{}, crdv1.KindResource: &crdv1.Resource{},
				"EndpointSlice":         &discoveryv1.EndpointSlice{},
				crdv1.KindRoutingConfig: &crdv1.RoutingConfig{}, "Deployment": &appsv1.Deployment{}, "Service": &corev1.Service{},
				crdv1.KindIstioRoute: &crdv1.IstioRoute{}, crdv1.KindGatewayAPIRoute: &crdv1.GatewayAPIRoute{},
				"DestinationRule": of("networking.istio.io/v1", "DestinationRule"),
				"VirtualService":  of("networking.istio.io/v1", "VirtualService"), "HTTPRoute": of("gateway.networking.k8s.io/v1", "HTTPRoute"),
			}[change.Object.Kind]
			err := c.Client.Get(c.Context(), client.ObjectKey{Namespace: change.Object.Namespace, Name: change.Object.Name}, o)
			if gone := change.Action == dryrun.Remove; gone != apierrors.IsNotFound(err) {
				return fmt.Errorf("reading it: %v", err)
			}
			return nil
		})
	}
}

// of returns an empty object without a Go type.
func of(apiVersion, kind string) client.Object {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion(apiVersion)
	u.SetKind(kind)
	return u
}

// tried asks what applying the object would change, checks that asking changed
// nothing, and then applies it and sees it come true.
func (c *cluster) tried(o client.Object) dryrun.Plan {
	c.Helper()
	before := c.said()
	p, err := dryrun.Apply(c.Context(), c.config(), o)
	c.Must(err)
	if diff := gocmp.Diff(after(before, nil), after(c.said(), nil)); diff != "" {
		c.Fatalf("asking changed the log:\n%s", diff)
	}
	c.apply(o)
	c.come(p, before)
	return p
}

// triedDeletion is tried for a deletion.
func (c *cluster) triedDeletion(o client.Object) dryrun.Plan {
	c.Helper()
	before := c.said()
	p, err := dryrun.Delete(c.Context(), c.config(), o)
	c.Must(err)
	c.Remove(o)
	c.come(p, before)
	return p
}

func (c *cluster) expect(p dryrun.Plan, changes, findings []string) {
	c.Helper()
	gotChanges, gotFindings := describe(p)
	if diff := gocmp.Diff(changes, gotChanges); diff != "" {
		c.Errorf("changes: %s", diff)
	}
	if diff := gocmp.Diff(findings, gotFindings); diff != "" {
		c.Errorf("findings: %s", diff)
	}
}

func TestPredictionsOfASandboxComeTrue(t *testing.T) {
	c := start(t, "dry-life")
	c.baseline("a")
	c.baseline("b")
	p := c.tried(c.sandbox("dry-life", "dry-life-key", "a"))
	c.expect(p, []string{
		"create Deployment", "create ForkedWorkload", "create RoutingConfig", "create Service", "create SignadotSandbox",
	}, []string{"ForkedWorkload ServicesReady=True PortsWithoutTarget", "ForkedWorkload SidecarsReady=True NoPods"})
	if len(p.Statements) != 2 {
		t.Fatalf("%v", p.Statements)
	}
	for _, f := range p.Statements {
		switch d := f.Data.(type) {
		case *factv1.WorkloadObserved:
			if s := d.GetServices(); d.GetReady() || d.GetWorkload().GetUid() != "" || d.GetBaseline().GetUid() == "" ||
				len(s) != 1 || s[0].GetFrom() != "a" || s[0].GetTo() == "" || s[0].GetClusterIp() != "" {
				t.Errorf("%v", d)
			}
		case *factv1.RoutingDeclared:
			if d.GetRoutingKey() != "dry-life-key" || d.GetOwner().GetUid() != "" {
				t.Errorf("%v", d)
			}
		default:
			t.Errorf("%v", d)
		}
	}

	p = c.tried(c.sandbox("dry-life", "dry-life-key", "b")) // Another baseline.
	c.expect(p, []string{
		"create Deployment", "create ForkedWorkload", "create Service", "delete Deployment", "delete ForkedWorkload",
		"delete Service", "update RoutingConfig", "update SignadotSandbox",
	}, []string{"ForkedWorkload ServicesReady=True PortsWithoutTarget", "ForkedWorkload SidecarsReady=True NoPods"})
	c.tried(c.sandbox("dry-life", "dry-other-key", "b")) // Another key.
	c.Eventually("what was applied has been done", func() error {
		p, err := dryrun.Apply(c.Context(), c.config(), c.sandbox("dry-life", "dry-other-key", "b"))
		if err == nil && len(p.Changes) > 0 {
			err = fmt.Errorf("still to be done: %v", p.Changes)
		}
		return err
	})
	p = c.tried(c.sandbox("dry-life", "dry-other-key", "b"))
	c.expect(p, nil, []string{"ForkedWorkload ServicesReady=True PortsWithoutTarget", "ForkedWorkload SidecarsReady=True NoPods"})

	p = c.triedDeletion(c.sandbox("dry-life", "any"))
	c.expect(p, []string{
		"delete Deployment", "delete ForkedWorkload", "delete RoutingConfig", "delete Service", "delete SignadotSandbox",
	}, nil)
	for _, f := range p.Statements {
		if f.Key == event.RoutingKey("dry-other-key") && f.Cause.Kind != crdv1.KindSandbox {
			t.Errorf("%s is withdrawn because of %+v", f.Key, f.Cause)
		}
	}
}

func TestDryRunNamesTheNextHolderOfTheKey(t *testing.T) {
	c := start(t, "dry-key")
	c.baseline("a")
	c.baseline("b")
	c.tried(c.sandbox("dry-key-a", "dry-key", "a"))
	// A second apart, as whole seconds count.
	c.Eventually("time passes", func() error {
		s := c.sandbox("dry-key-a", "")
		if err := c.Look(s); err != nil {
			return err
		}
		if time.Since(s.CreationTimestamp.Time) < 1100*time.Millisecond {
			return errors.New("not yet")
		}
		return nil
	})
	p := c.tried(c.sandbox("dry-key-0", "dry-key", "b"))
	c.expect(p, []string{"create SignadotSandbox"}, []string{"SignadotSandbox Accepted=False RoutingKeyTaken"})
	declaredFor := func(want string) {
		t.Helper()
		owner := "nobody"
		for _, f := range p.Statements {
			if d, ok := f.Data.(*factv1.RoutingDeclared); ok {
				owner = d.GetOwner().GetName()
			}
		}
		if owner != want {
			t.Errorf("the key would be declared for %s, not for %s", owner, want)
		}
	}
	declaredFor("dry-key-a")
	p = c.triedDeletion(c.sandbox("dry-key-a", ""))
	declaredFor("dry-key-0")
}

func TestObstaclesAreReported(t *testing.T) {
	c := start(t, "dry-wrong")
	c.deployment("quiet") // No Service selects it.
	c.baseline("taken")
	group := func(name, key string) *crdv1.SignadotRouteGroup {
		return &crdv1.SignadotRouteGroup{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: crdv1.SignadotRouteGroupSpec{RoutingKey: key}}
	}
	badPatch := c.sandbox("dry-bad-patch", "dry-bad-patch", "taken")
	badPatch.Spec.Customization.Patches[0].Strategic.Raw = []byte(`{"spec":{"template":{"spec":{"containers":"none"}}}}`)
	elsewhere := c.sandbox("dry-elsewhere", "dry-elsewhere", "a")
	elsewhere.Spec.Customization.Patches[0].Target.Namespace = "dry-nowhere"
	tests := []struct {
		name     string
		object   client.Object
		findings []string
	}{
		{"the baseline does not exist", c.sandbox("dry-no-baseline", "dry-no-baseline", "nowhere"), []string{
			"SignadotSandbox WorkloadsReady=False BaselineNotFound",
		}},
		{"the namespace does not exist", elsewhere, []string{
			"SignadotSandbox WorkloadsReady=False BaselineNotFound", "RoutingConfig WorkloadsFound=False WorkloadsNotFound",
		}},
		{"no Service selects the baseline", c.sandbox("dry-quiet", "dry-quiet", "quiet"), []string{
			"ForkedWorkload ServicesReady=True NoService",
		}},
		{"no header can carry the key", group("dry-comma", "dry,comma"), []string{"SignadotRouteGroup Accepted=False InvalidSpec"}},
		{"one header cannot carry the key", group("dry-semicolon", "dry;semicolon"), []string{"SignadotRouteGroup Accepted=True AcceptedWithWarning"}},
		{"a patch does not apply", badPatch, []string{"SignadotSandbox Accepted=False PatchFailed"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := cluster{World: c.In(t), ns: c.ns, log: c.log}
			p := in.tried(tt.object)
			_, findings := describe(p)
			for i, want := range tt.findings {
				if i >= len(findings) || findings[i] != want {
					t.Errorf("findings are %q, want %q first", findings, tt.findings)
				}
			}
			for _, f := range p.Findings {
				if f.Message == "" || f.Object.Name == "" {
					t.Errorf("%+v", f)
				}
			}
		})
	}
}

func TestObjectsMadeByHandComeTrueToo(t *testing.T) {
	c := start(t, "dry-hand")
	c.baseline("a")
	fork := &crdv1.ForkedWorkload{}
	c.Read(fork, `
apiVersion: signadot.com/v1
kind: ForkedWorkload
metadata: {name: by-hand, namespace: dry-hand}
spec: {baseline: {apiVersion: apps/v1, kind: Deployment, namespace: dry-hand, name: a}}`)
	c.tried(fork)
	config := &crdv1.RoutingConfig{}
	c.Read(config, `
apiVersion: signadot.com/v1
kind: RoutingConfig
metadata: {name: dry-hand}
spec: {sandboxedWorkloads: [{kind: ForkedWorkload, namespace: dry-hand, name: by-hand}]}`)
	c.tried(config)
	p := c.triedDeletion(fork)
	c.expect(p, []string{"delete Deployment", "delete ForkedWorkload", "delete Service"},
		[]string{"RoutingConfig WorkloadsFound=False WorkloadsNotFound"})
	c.triedDeletion(config)
}

func TestMembersOfEveryKindAndRouteGroupsComeTrueToo(t *testing.T) {
	c := start(t, "dry-kinds")
	for _, name := range []string{"a", "b", "v"} {
		c.baseline(name)
	}
	s := c.sandbox("dry-kinds", "dry-kinds-key", "a")
	ref := func(name string) crdv1.ObjectRef {
		return crdv1.ObjectRef{APIVersion: "apps/v1", Kind: "Deployment", Namespace: c.ns, Name: name}
	}
	s.Spec.ExternalWorkloads = []crdv1.SandboxExternalWorkload{
		{Name: "local", Baseline: &crdv1.ExternalBaseline{ObjectRef: ref("b")}}, {Name: "reverse"},
	}
	s.Spec.VirtualWorkloads = []crdv1.SandboxVirtualWorkload{{Name: "seen", Baseline: ref("v")}}
	changes, _ := describe(c.tried(s))
	for _, want := range []string{"create SignadotExternalWorkload", "create VirtualWorkload", "create ForkedWorkload"} {
		if !slices.Contains(changes, want) {
			t.Errorf("%s is not among %v", want, changes)
		}
	}
	group := &crdv1.SignadotRouteGroup{ObjectMeta: metav1.ObjectMeta{Name: "dry-kinds"}}
	group.Spec.RoutingKey, group.Spec.SandboxNames = "dry-group-key", []string{s.Name}
	c.tried(group)

	s.Spec.ExternalWorkloads = nil
	p := c.tried(s) // The key of the group reaches less, too.
	keys := map[string]bool{}
	for _, f := range p.Statements {
		if d, ok := f.Data.(*factv1.RoutingDeclared); ok {
			keys[d.GetRoutingKey()] = len(d.GetMembers()) == 2
		}
	}
	if !keys["dry-kinds-key"] || !keys["dry-group-key"] {
		t.Errorf("declared with two members: %v", keys)
	}
	c.triedDeletion(s)
	c.triedDeletion(group)
}

func TestThePlanOfASandboxWithResourcesEndsWithForksThatAreHeld(t *testing.T) {
	c := start(t, "dry-res")
	c.baseline("a")
	s := c.sandbox("dry-res", "dry-res-key", "a")
	s.Spec.ManagedResources = []crdv1.SandboxResource{{Name: "db", PluginName: "p"}}
	p := c.tried(s)
	c.expect(p, []string{"create ForkedWorkload", "create Resource", "create RoutingConfig", "create Service", "create SignadotSandbox"}, []string{
		"SignadotSandbox WorkloadsReady=Unknown ResourcesNotReady", "SignadotSandbox ResourcesReady=Unknown Pending",
		"ForkedWorkload ForkAvailable=False WaitsFor", "ForkedWorkload ServicesReady=True PortsWithoutTarget", "ForkedWorkload SidecarsReady=True NoPods",
	})
	for _, f := range p.Findings {
		if f.InTheWay() {
			t.Errorf("stands in the way, although nobody has tried it: %+v", f)
		}
	}
	p = c.triedDeletion(s)
	c.expect(p, []string{"delete ForkedWorkload", "delete Resource", "delete RoutingConfig", "delete Service", "delete SignadotSandbox"}, nil)
}

func TestAPlanGoesByThePowersThatPatchesMayAdd(t *testing.T) {
	c := start(t, "dry-powers")
	c.baseline("a")
	s := c.sandbox("dry-powers", "dry-powers-key", "a")
	s.Spec.Customization.Patches[0].Patch = crdv1.Patch{Merge: &runtime.RawExtension{Raw: []byte(`{"spec":{"template":{"spec":{"hostPID":true}}}}`)}}
	for _, allowed := range []power.Powers{nil, {power.HostNamespaces}} {
		config := c.config()
		config.Powers = allowed
		p, err := dryrun.Apply(t.Context(), config, s)
		if err != nil {
			t.Fatal(err)
		}
		changes, findings := describe(p)
		if made := slices.Contains(changes, "create Deployment"); made != (allowed != nil) {
			t.Errorf("with %v: %v, %v", allowed, changes, findings)
		}
	}
}

func TestUnknownsAreReported(t *testing.T) {
	c := start(t, "dry-ask")
	resource := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "signadot.com/v1", "kind": "Resource", "metadata": map[string]any{"name": "r"},
	}}
	mistyped := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "signadot.com/v1", "kind": "SignadotSandbox", "metadata": map[string]any{"name": "s"},
		"spec": map[string]any{"id": "s", "customisation": map[string]any{}},
	}}
	tests := []struct {
		name   string
		object client.Object
		want   error
		says   string
	}{
		{"a kind without a controller", resource, dryrun.ErrNotSupported, "Resource r"},
		{"a kind of somebody else", &corev1.Service{}, dryrun.ErrNotSupported, "Service"},
		{"a field that does not exist", mistyped, dryrun.ErrInvalid, "customisation"},
		{"an object without a name", &crdv1.RoutingConfig{}, dryrun.ErrInvalid, "name"},
		{"a fork without a namespace", &crdv1.ForkedWorkload{ObjectMeta: c.sandbox("x", "x").ObjectMeta}, dryrun.ErrInvalid, "namespace"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := dryrun.Apply(t.Context(), c.config(), tt.object)
			if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%v", err)
			}
		})
	}
	if _, err := dryrun.Delete(t.Context(), c.config(), c.sandbox("dry-none", "x")); !errors.Is(err, dryrun.ErrNoObject) {
		t.Errorf("deleting what is not there: %v", err)
	}
	if _, err := dryrun.Apply(t.Context(), dryrun.Config{}, c.sandbox("x", "x")); err == nil {
		t.Error("without a reader: no error")
	}
}

func TestRefusalsOfTheAPIServerAreReported(t *testing.T) {
	c := start(t, "dry-refuse")
	c.baseline("a")
	asked := func(objects ...client.Object) dryrun.Plan {
		t.Helper()
		config := c.config()
		config.Client = c.user("")
		p, err := dryrun.Apply(t.Context(), config, objects...)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	// The definition of the kind bounds the length of a key, and the API server enforces it.
	long := c.sandbox("dry-refuse-long", strings.Repeat("k", 300), "a")
	good := c.sandbox("dry-refuse-good", "dry-refuse-good", "a")
	p := asked(long, good)
	if len(p.Refusals) != 1 || p.Refusals[0].Object.Name != long.Name || !strings.Contains(p.Refusals[0].Message, "spec.id") {
		t.Errorf("refusals: %+v", p.Refusals)
	}
	c.expect(p, []string{
		"create Deployment", "create ForkedWorkload", "create RoutingConfig", "create Service", "create SignadotSandbox",
	}, []string{"ForkedWorkload ServicesReady=True PortsWithoutTarget", "ForkedWorkload SidecarsReady=True NoPods"})

	// Only the API server knows which Deployments are valid.
	bad := c.sandbox("dry-refuse-bad", "dry-refuse-bad", "a")
	bad.Spec.Customization.Patches[0].Strategic.Raw = []byte(`{"spec":{"template":{"spec":{"containers":[{"name":"main","resources":{"limits":{"memory":"1Gi"},"requests":{"memory":"2Gi"}}}]}}}}`)
	p = asked(bad)
	_, findings := describe(p)
	if len(p.Refusals) > 0 || len(findings) == 0 || findings[0] != "SignadotSandbox Accepted=False Rejected" || !p.Findings[0].InTheWay() {
		t.Errorf("refusals %+v, findings %+v", p.Refusals, p.Findings)
	}
	for _, s := range []client.Object{long, good, bad} {
		if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(s), s); !apierrors.IsNotFound(err) {
			t.Errorf("%s was made: %v", s.GetName(), err)
		}
	}
}

// A policy of the cluster demands a label of Services, which a fork's Service keeps if the sandbox asks for it.
func TestTheAPIServerIsAskedAboutServicesOfForks(t *testing.T) {
	c := start(t, "dry-service")
	d := c.baseline("a")
	c.Must(c.Client.Patch(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: "a"}},
		client.RawPatch("application/merge-patch+json", []byte(`{"metadata": {"labels": {"example.com/owner": "team"}}}`))))
	policy, binding := &registrationv1.ValidatingAdmissionPolicy{}, &registrationv1.ValidatingAdmissionPolicyBinding{}
	c.Make(policy, `
metadata: {name: dry-service}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [services]}]}
  validations: [{expression: "has(object.metadata.labels) && 'example.com/owner' in object.metadata.labels", message: each Service needs an owner}]`)
	c.Make(binding, `
metadata: {name: dry-service}
spec: {policyName: dry-service, validationActions: [Deny], matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: dry-service}}}}`)
	config := c.config()
	config.Client = c.user("")
	plain, keeping := c.sandbox("dry-service", "dry-service", "a"), c.sandbox("dry-service", "dry-service", "a")
	keeping.Spec.Customization.PreservedLabels = []string{"^example.com/owner$"}
	c.Eventually("a Service without the label would be refused", func() error {
		p, err := dryrun.Apply(t.Context(), config, plain)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(p.Findings, func(f dryrun.Finding) bool {
			return f.InTheWay() && f.Type != crdv1.ConditionAccepted && f.Reason == "Refused" && strings.Contains(f.Message, "each Service needs an owner")
		}) {
			return fmt.Errorf("findings are %+v", p.Findings)
		}
		return nil
	})
	p, err := dryrun.Apply(t.Context(), config, keeping)
	c.Must(err)
	for _, f := range p.Findings {
		if f.InTheWay() {
			t.Errorf("with the label: %+v", f)
		}
	}
}

// A policy of the cluster rewrites Deployments, so that a fork always differs from the document that
// the operator applies. An update is listed only if the API server would store another object.
func TestAForkThatAPolicyRewritesIsNotListedUnchanged(t *testing.T) {
	c := start(t, "dry-rewrite")
	c.Make(&registrationv1.MutatingAdmissionPolicy{}, `
metadata: {name: dry-rewrite}
spec:
  failurePolicy: Fail
  reinvocationPolicy: IfNeeded
  matchConstraints: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments]}]}
  matchConditions: [{name: forks, expression: "object.metadata.name != 'a'"}]
  mutations:
  - patchType: JSONPatch
    jsonPatch:
      expression: >
        [JSONPatch{op: "add", path: "/spec/template/spec/terminationGracePeriodSeconds", value: 5},
         JSONPatch{op: "add", path: "/spec/template/spec/containers/0/image", value: "mirror.example.com/rewritten:1"}]`)
	c.Make(&registrationv1.MutatingAdmissionPolicyBinding{}, `
metadata: {name: dry-rewrite}
spec: {policyName: dry-rewrite, matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: dry-rewrite}}}}`)
	c.Eventually("the policy is in force", func() error {
		d := &appsv1.Deployment{}
		c.Read(d, `
metadata: {name: probe, namespace: dry-rewrite}
spec: {selector: {matchLabels: {app: probe}}, template: {metadata: {labels: {app: probe}}, spec: {containers: [{name: main, image: "probe:1"}]}}}`)
		err := c.Client.Create(t.Context(), d, client.DryRunAll)
		if image := d.Spec.Template.Spec.Containers[0].Image; err == nil && image == "probe:1" {
			err = fmt.Errorf("its image is %s", image)
		}
		return err
	})
	c.baseline("a")
	s := c.sandbox("dry-rewrite", "dry-rewrite", "a")
	c.apply(s)
	config := c.config()
	config.Client = c.user("")
	c.Eventually("nothing is left to do", func() error {
		p, err := dryrun.Apply(t.Context(), config, s)
		if err == nil && len(p.Changes) > 0 {
			err = fmt.Errorf("still to be done: %v", p.Changes)
		}
		return err
	})
	var all appsv1.DeploymentList
	c.List(&all, client.InNamespace("dry-rewrite"))
	if i := slices.IndexFunc(all.Items, func(d appsv1.Deployment) bool { return d.Name != "a" }); i < 0 ||
		all.Items[i].Spec.Template.Spec.Containers[0].Image != "mirror.example.com/rewritten:1" {
		t.Errorf("the policy rewrote no fork: %v", all.Items)
	}
	s.Spec.Customization.Patches[0].Strategic.Raw = []byte(`{"spec":{"template":{"spec":{"containers":[{"name":"main","args":["more"]}]}}}}`)
	p, err := dryrun.Apply(t.Context(), config, s)
	c.Must(err)
	if changes, _ := describe(p); !slices.Contains(changes, "update Deployment") {
		t.Errorf("another patch changes %v", changes)
	}
}

func TestObjectsOfOneFileAreSeenTogether(t *testing.T) {
	c := start(t, "dry-many")
	c.baseline("a")
	s := c.sandbox("dry-many", "dry-many-key", "a")
	group := &crdv1.SignadotRouteGroup{ObjectMeta: metav1.ObjectMeta{Name: "dry-many"}}
	group.Spec.RoutingKey, group.Spec.SandboxNames = "dry-many-group", []string{s.Name}
	p, err := dryrun.Apply(t.Context(), c.config(), s, group)
	if err != nil {
		t.Fatal(err)
	}
	members := map[string]int{}
	for _, f := range p.Statements {
		if d, ok := f.Data.(*factv1.RoutingDeclared); ok {
			members[d.GetRoutingKey()] = len(d.GetMembers())
		}
	}
	if diff := gocmp.Diff(map[string]int{"dry-many-key": 1, "dry-many-group": 1}, members); diff != "" {
		t.Error(diff)
	}
	for _, f := range p.Findings {
		if f.InTheWay() {
			t.Errorf("stands in the way: %+v", f)
		}
	}
	c.tried(s)
	c.tried(group)
	if p, err = dryrun.Delete(t.Context(), c.config(), s, group); err != nil || len(p.Changes) != 7 {
		t.Errorf("%v, %v", p.Changes, err)
	}
}

func TestDryRunWithoutWriteRightsNamesSkippedChecks(t *testing.T) {
	c := start(t, "dry-asker")
	c.baseline("a")
	c.grant("dry-asker", "signadot.com", false, "*")
	c.grant("dry-asker", "apps", false, "deployments")
	c.grant("dry-asker", "", false, "services", "pods", "namespaces")
	c.grant("dry-asker", "discovery.k8s.io", false, "endpointslices")
	c.grant("dry-asker", "policy", false, "poddisruptionbudgets")
	config := c.config()
	config.Reader = c.user("dry-asker")
	config.Client = c.user("dry-asker")
	p, err := dryrun.Apply(t.Context(), config, c.sandbox("dry-asker", "dry-asker", "a"))
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Refusals) > 0 || len(p.Changes) != 5 || len(p.Unknown) != 3 || !strings.Contains(p.Unknown[0], "you may not patch signadotsandboxes.signadot.com") {
		t.Errorf("%+v", p)
	}
}

// The operator does not overwrite fields of a fork that others have set, and a dry run reports them.
func TestAConflictOverAForkIsReported(t *testing.T) {
	c := start(t, "dry-others")
	for name, others := range map[string]struct{ set, field string }{
		"replicas": {`{"replicas":3}`, ".spec.replicas"},
		"image":    {`{"template":{"spec":{"containers":[{"name":"main","image":"theirs"}]}}}`, `.spec.template.spec.containers[name="main"].image`},
	} {
		c.baseline(name)
		s := c.sandbox("dry-others-"+name, "dry-others-"+name, name)
		s.Spec.Customization.Patches[0].Strategic.Raw = []byte(`{"spec":{"replicas":2,"template":{"spec":{"containers":[{"name":"main","image":"ours"}]}}}}`)
		p := c.tried(s)
		at := slices.IndexFunc(p.Changes, func(c dryrun.Change) bool { return c.Object.Kind == "Deployment" })
		fork := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: c.ns, Name: p.Changes[at].Object.Name}}
		patch := client.RawPatch(types.StrategicMergePatchType, []byte(`{"spec":`+others.set+`}`))
		if err := c.Client.Patch(t.Context(), fork, patch, client.FieldOwner("somebody")); err != nil {
			t.Fatal(err)
		}
		p, err := dryrun.Apply(t.Context(), c.config(), s)
		if err != nil {
			t.Fatal(err)
		}
		c.expect(p, nil, []string{"SignadotSandbox WorkloadsReady=False FieldConflict", "ForkedWorkload ServicesReady=True PortsWithoutTarget", "ForkedWorkload SidecarsReady=True NoPods"})
		if message := p.Findings[0].Message; !strings.Contains(message, others.field+` (by "somebody"`) {
			t.Errorf("%q does not name %s", message, others.field)
		}
	}
}

func TestAForkOfARolloutIsReported(t *testing.T) {
	c := start(t, "dry-rollout")
	c.Make(&unstructured.Unstructured{}, `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: rollouts.argoproj.io}
spec:
  group: argoproj.io
  names: {kind: Rollout, plural: rollouts}
  scope: Namespaced
  versions: [{name: v1alpha1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]`)
	rollout := baseline.NewRollout()
	c.Read(rollout, `
apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata: {name: a, namespace: dry-rollout}
spec:
  replicas: 1
  selector: {matchLabels: {app: a}}
  template:
    metadata: {labels: {app: a}, annotations: {sidecar.signadot.com/inject: "true"}}
    spec: {containers: [{name: main, image: "a:1", ports: [{name: http, containerPort: 8080}]}]}`)
	c.Eventually("Rollouts are served", func() error { return c.Client.Create(t.Context(), rollout) })
	c.Make(&corev1.Service{}, `{metadata: {name: a, namespace: dry-rollout}, spec: {selector: {app: a}, ports: [{name: http, port: 80, targetPort: http}]}}`)
	s := c.sandbox("dry-rollout", "dry-rollout-key", "a")
	s.Spec.Customization.Patches[0].Target.APIVersion, s.Spec.Customization.Patches[0].Target.Kind = "argoproj.io/v1alpha1", "Rollout"
	p, err := dryrun.Apply(t.Context(), c.config(), s)
	if err != nil {
		t.Fatal(err)
	}
	c.expect(p, []string{"create ForkedWorkload", "create Rollout", "create RoutingConfig", "create Service", "create SignadotSandbox"}, []string{"ForkedWorkload SidecarsReady=True NoPods"})
}

// A user applies the output of kubectl get.
func TestAFileCanContainServerFields(t *testing.T) {
	c := start(t, "dry-file")
	c.baseline("a")
	s := c.sandbox("dry-file", "dry-file-key", "a")
	s.UID, s.ResourceVersion, s.Generation, s.ManagedFields = "theirs", "7", 7, []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
	s.Status.Conditions = []crdv1.StatusCondition{{Type: crdv1.ConditionReady, Status: "True"}}
	p, err := dryrun.Apply(t.Context(), c.config(), s)
	if err != nil {
		t.Fatal(err)
	}
	c.expect(p, []string{
		"create Deployment", "create ForkedWorkload", "create RoutingConfig", "create Service", "create SignadotSandbox",
	}, []string{"ForkedWorkload ServicesReady=True PortsWithoutTarget", "ForkedWorkload SidecarsReady=True NoPods"})
}
