package sandbox_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"switchyard.dev/eventbus/event"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/forkedworkload"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/reconcilers/routing"
	"switchyard.dev/reconcilers/routingconfig"
	"switchyard.dev/reconcilers/routingkey"
	"switchyard.dev/reconcilers/sandbox"
	"switchyard.dev/tests/golden"
)

// then is the time of everything in the golden world.
var then = metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))

// TestGoldenPairs takes each testdata/*.in.yaml, a sandbox and the cluster
// around it, through all decisions as if everything that is written succeeded,
// and compares what comes out with testdata/*.out.yaml.
func TestGoldenPairs(t *testing.T) {
	inputs, err := filepath.Glob("testdata/*.in.yaml")
	if err != nil || len(inputs) == 0 {
		t.Fatalf("no golden pairs: %v", err)
	}
	for _, path := range inputs {
		name := strings.TrimSuffix(filepath.Base(path), ".in.yaml")
		t.Run(name, func(t *testing.T) {
			golden.Compare(t, strings.TrimSuffix(path, ".in.yaml")+".out.yaml", string(play(t, readWorld(t, path))))
		})
	}
}

// world is a cluster as values.
type world struct {
	sandbox     crdv1.SignadotSandbox
	others      []crdv1.SignadotSandbox
	deployments map[string]*appsv1.Deployment
	rollouts    map[string]*unstructured.Unstructured
	// resources are how resources are, by their names in the sandbox.
	resources map[string]crdv1.ResourceStatus
	services  []corev1.Service
	pods      []corev1.Pod
}

// readWorld reads the objects of one file; the first sandbox is the one that is
// looked at.
func readWorld(t *testing.T, path string) world {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	w := world{deployments: map[string]*appsv1.Deployment{}, rollouts: map[string]*unstructured.Unstructured{}, resources: map[string]crdv1.ResourceStatus{}}
	for i, document := range bytes.Split(content, []byte("\n---\n")) {
		var meta metav1.TypeMeta
		decode(t, document, &meta, yaml.Unmarshal)
		switch meta.Kind {
		case crdv1.KindSandbox:
			var s crdv1.SignadotSandbox
			decode(t, document, &s, strictly)
			if s.CreationTimestamp.IsZero() {
				s.CreationTimestamp = then
			}
			if i == 0 {
				w.sandbox = s
			} else {
				w.others = append(w.others, s)
			}
		case "Deployment":
			var d appsv1.Deployment
			decode(t, document, &d, strictly)
			w.deployments[d.Namespace+"/"+d.Name] = &d
		case baseline.KindRollout:
			u := &unstructured.Unstructured{}
			decode(t, document, &u.Object, yaml.Unmarshal)
			w.rollouts[u.GetNamespace()+"/"+u.GetName()] = u
		case crdv1.KindResource:
			var r crdv1.Resource
			decode(t, document, &r, strictly)
			w.resources[r.Spec.Name] = r.Status
		case "Service":
			var s corev1.Service
			decode(t, document, &s, strictly)
			w.services = append(w.services, s)
		case "Pod":
			var p corev1.Pod
			decode(t, document, &p, strictly)
			w.pods = append(w.pods, p)
		default:
			t.Fatalf("document %d of %s has kind %q", i, path, meta.Kind)
		}
	}
	return w
}

func strictly(b []byte, into any, _ ...yaml.JSONOpt) error { return yaml.UnmarshalStrict(b, into) }

func decode(t *testing.T, document []byte, into any, with func([]byte, any, ...yaml.JSONOpt) error) {
	t.Helper()
	if err := with(document, into); err != nil {
		t.Fatalf("%v in:\n%s", err, document)
	}
}

// play takes the world through all decisions and returns what comes out as YAML.
func play(t *testing.T, w world) []byte {
	t.Helper()
	var out printer
	in := sandbox.Input{Sandbox: &w.sandbox, OperatorNamespace: "signadot"}
	for i := range w.others {
		in.Claims = append(in.Claims, routingkey.OfSandbox(&w.others[i]))
	}
	in = provided(in)
	for _, r := range in.Resources {
		r.Status = w.resources[r.Spec.Name]
		out.object(t, r)
	}
	d := sandbox.Decide(in)
	made := acted(in, d)
	for i, m := range made.Members {
		if m == nil {
			continue
		}
		if fw, ok := m.(*crdv1.ForkedWorkload); ok {
			fw.UID = "uid-of-" + w.sandbox.UID + "-fork"
			m = playFork(t, &out, w, fw)
		} else {
			out.object(t, m)
			m = running(sandbox.Input{Members: []crdv1.Member{m}}).Members[0]
		}
		made.Members[i] = m
	}
	if d.Config != nil {
		d.Config.UID, d.Config.CreationTimestamp, d.Config.Generation = "uid-of-config", then, 1
		ri := routingconfig.Input{Routing: routing.Of(d.Config, made.Members, nil)}
		rd := routingconfig.Decide(ri)
		made.Config = routingconfig.Conclude(ri, rd, routingconfig.Published{Pos: event.Pos{Epoch: "epoch", Seq: 7}}, routingconfig.Receipt{Waived: true}, then)
		out.object(t, made.Config)
		out.fact(t, routingconfig.Declared(d.Config, rd.Declaration))
	}
	after := sandbox.Conclude(in, d, made, then)
	out.object(t, &crdv1.SignadotSandbox{
		TypeMeta: after.TypeMeta, ObjectMeta: metav1.ObjectMeta{Name: after.Name}, Status: after.Status,
	})
	return out.Bytes()
}

// baseline returns the workload that a fork is of; nil when there is none.
func (w world) baseline(fw *crdv1.ForkedWorkload) *baseline.Workload {
	place := fw.Namespace + "/" + fw.Spec.Baseline.Name
	if u := w.rollouts[place]; u != nil && fw.Spec.Baseline.Kind == baseline.KindRollout {
		return baseline.OfRollout(u, nil)
	}
	return baseline.OfDeployment(w.deployments[place])
}

// started returns a fork whose pods are ready. A Rollout stays as it was written: what
// its own controller says of it is for package forkedworkload.
func started(fork client.Object) client.Object {
	d, ok := fork.DeepCopyObject().(*appsv1.Deployment)
	if !ok {
		return fork
	}
	n := int32(1) // As the API server makes it where nothing is said.
	if d.Spec.Replicas != nil {
		n = *d.Spec.Replicas
	}
	d.Status = appsv1.DeploymentStatus{Replicas: n, UpdatedReplicas: n, AvailableReplicas: n}
	return d
}

// playFork takes one ForkedWorkload through its decisions.
func playFork(t *testing.T, out *printer, w world, fw *crdv1.ForkedWorkload) *crdv1.ForkedWorkload {
	t.Helper()
	in := forkedworkload.Input{
		AuthorsAsked: true,
		Workload:     fw,
		Seen:         member.Seen{Baseline: w.baseline(fw), Pods: w.pods},
		Services:     w.services,
	}
	d := forkedworkload.Decide(in)
	made := forkedworkload.Made{Made: member.Made{Services: map[string]*corev1.Service{}}}
	if d.Fork != nil {
		out.object(t, d.Fork)
		made.Fork = started(d.Fork)
	}
	for i, m := range d.Services {
		if m.Service == nil {
			continue
		}
		out.object(t, m.Service)
		s := m.Service.DeepCopy()
		if s.Spec.ClusterIP == "" {
			s.Spec.ClusterIP = "10.96.0." + string(rune('1'+i))
		}
		made.Services[m.From] = s
	}
	after := forkedworkload.Conclude(in, d, made, then)
	out.object(t, after)
	if fact, ok := forkedworkload.Observed(after, d, made); ok {
		out.fact(t, fact)
	}
	return after
}

// printer gathers YAML documents.
type printer struct{ bytes.Buffer }

func (p *printer) object(t *testing.T, o any) {
	t.Helper()
	written, err := yaml.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	p.document(written)
}

// fact writes a fact as it stands in the log, without what only the log knows.
func (p *printer) fact(t *testing.T, f event.Fact) {
	t.Helper()
	content, err := protojson.Marshal(f.Data)
	if err != nil {
		t.Fatal(err)
	}
	var data any
	if err := json.Unmarshal(content, &data); err != nil {
		t.Fatal(err)
	}
	written, err := yaml.Marshal(map[string]any{"fact": f.Key, "generation": f.Cause.Generation, "data": data})
	if err != nil {
		t.Fatal(err)
	}
	p.document(written)
}

func (p *printer) document(written []byte) {
	if p.Len() > 0 {
		p.WriteString("---\n")
	}
	p.Write(written)
}
