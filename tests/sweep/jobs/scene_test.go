package jobs

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/memory"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tests/background"
	"switchyard.dev/tests/runners"
	"switchyard.dev/tests/sweep/life"
	"switchyard.dev/tests/world"
	"switchyard.dev/tools/wait"
)

// scene is a run.
type scene struct {
	*world.World
	node    *Node
	service *runners.Service
	random  *rand.Rand
	log     *memory.Store
	// operator and ns are the namespaces of the operator and of the pods.
	operator, ns, ledger string
	groups               []string
	asked                map[string]asked
	// manager is the newest; elects: managers elect a leader.
	manager *life.Life
	elects  bool
	// plane is a control plane, and plant has faults of the manager; nil: there is none.
	plane *plane
	plant *plant
}

func newScene(t *testing.T, p *plant) *scene {
	t.Helper()
	s := &scene{World: world.Shared(t), random: rand.New(rand.NewPCG(*seed, 0)), log: memory.NewStore(), asked: map[string]asked{}, plant: p} //nolint:gosec // It is to be the same again.
	s.operator, s.ns, s.ledger = s.NewNamespace("operator"), s.NewNamespace("jobs"), filepath.Join(t.TempDir(), "ledger")
	s.Must(os.WriteFile(s.ledger, nil, 0o600))
	s.Accounts(s.ns, "default")
	s.service = runners.Serve(s.World, s.operator, agentAccount)
	s.node = NewNode(t, s.Kube, s.ns, "LEDGER="+s.ledger)
	background.Run(t, s.node.Run)
	t.Cleanup(func() { s.end() })
	return s
}

// groupsOfObjects creates the runner groups as objects.
func (s *scene) groupsOfObjects() {
	s.Helper()
	s.groups = []string{reused, fresh}
	s.Make(&crdv1.JobRunnerGroup{}, fmt.Sprintf("metadata: {name: %s, namespace: %s}\nspec: {image: debian, replicas: %d, reusePods: true}", reused, s.ns, reusedPods))
	s.Make(&crdv1.JobRunnerGroup{}, fmt.Sprintf("metadata: {name: %s, namespace: %s}\nspec: {image: debian, replicas: %d}", fresh, s.ns, freshPods))
}

// submit submits the i-th job: every fourth one fails by itself, every other one may run again, and with a control
// plane every third one is an object.
func (s *scene) submit(i int) {
	s.Helper()
	a := asked{retries: i % 2, shown: s.plane != nil && i%3 != 2}
	if i%4 == 3 {
		a.code = 3
	}
	group := s.groups[0]
	if i%5 == 4 {
		group = s.groups[1]
	}
	sleep := 0.1 + (long.Seconds()-0.1)*s.random.Float64()
	s.begins(a, group, fmt.Sprintf("sleep %.2f", sleep))
}

// begins submits a job with a script that does something between the lines in the ledger, and returns its name.
func (s *scene) begins(a asked, group, does string) (name string) {
	s.Helper()
	script := fmt.Sprintf("#!/bin/sh\nn=$SIGNADOT_CONTROL_JOB_NAME\necho $n begun >> $LEDGER\necho $n\n%s\necho $n end %d >> $LEDGER\nexit %d\n", does, a.code, a.code)
	if a.shown {
		name = s.plane.submit(group, script, a.retries)
	} else {
		j := &crdv1.Job{}
		name = fmt.Sprintf("%s-%d", s.ns, len(s.asked))
		s.Read(j, fmt.Sprintf("metadata: {name: %s, annotations: {switchyard.dev/retries: %q}}\nspec: {runnerGroup: {namespace: %s, name: %s}}",
			name, fmt.Sprint(a.retries), s.ns, group))
		j.Spec.Content.Script = script
		s.Create(j)
	}
	s.asked[name] = a
	return name
}

// sleeps submits a job that sleeps, unless it has begun before.
func (s *scene) sleeps(group string) string {
	return s.begins(asked{}, group, `[ $(grep -c "^$n begun" $LEDGER) -gt 1 ] || sleep 100`)
}

// pause waits for a random time.
func (s *scene) pause(most time.Duration) {
	s.Helper()
	s.Must(wait.For(s.Context(), time.Duration(s.random.Int64N(int64(most)))))
}

// job reads a job.
func (s *scene) job(name string) *crdv1.Job {
	s.Helper()
	j := &crdv1.Job{}
	j.Name = name
	s.Get(j)
	return j
}

// with returns the job with a fault.
func (s *scene) with(p *plant, fault string) string {
	for name := range s.asked {
		if is, _ := p.of(string(s.job(name).UID)); is == fault {
			return name
		}
	}
	s.Fatalf("no job has the fault %q", fault)
	return ""
}

// ran reads the ledger.
func (s *scene) ran() map[string]did {
	s.Helper()
	text, err := os.ReadFile(s.ledger)
	s.Must(err)
	ran, err := read(string(text))
	s.Must(err)
	return ran
}

// begun returns an error unless the script of a job has begun so often.
func (s *scene) begun(name string, times int) error {
	if is := s.ran()[name].begun; is != times {
		return fmt.Errorf("its script has begun %d times", is)
	}
	return nil
}

// terminated returns an error unless a job has ended.
func (s *scene) terminated(name string) error {
	if st := s.job(name).Status.State; st == nil || st.Terminated == nil {
		return fmt.Errorf("its state is %+v", st)
	}
	return nil
}

// statuses returns those of all jobs.
func (s *scene) statuses() map[string]crdv1.JobStatus {
	s.Helper()
	var list crdv1.JobList
	s.List(&list)
	out := map[string]crdv1.JobStatus{}
	for _, j := range list.Items {
		if _, is := s.asked[j.Name]; is {
			out[j.Name] = j.Status
		}
	}
	return out
}

// unended returns the jobs that have not ended.
func (s *scene) unended() (names []string) {
	s.Helper()
	all := s.statuses()
	for name := range s.asked {
		if st, is := all[name]; !is || st.State == nil || st.State.Terminated == nil {
			names = append(names, name)
		}
	}
	return names
}

// evidence waits for the end of all jobs, as long as some end.
func (s *scene) evidence() evidence {
	s.Helper()
	before := -1
	for n := len(s.unended()); n > 0 && n != before; n = len(s.unended()) {
		before = n
		_ = wait.Until(s.Context(), world.Patience, "another job ends", func() error {
			if left := s.unended(); len(left) >= before {
				return fmt.Errorf("none of %v has ended", left)
			}
			return nil
		})
	}
	e := evidence{asked: s.asked, ledger: s.ran(), jobs: s.statuses(), struck: s.node.struck}
	if s.plane != nil {
		e.shown = s.plane.ended(func(name string) crdv1.JobStatus { return s.job(name).Status })
		e.jobs = s.statuses()
	}
	return e
}

// nothingIsLeft deletes everything, and returns the remains.
func (s *scene) nothingIsLeft(patience time.Duration) string {
	s.Helper()
	if s.plane != nil {
		s.plane.deleteAll(slices.Sorted(maps.Keys(s.asked)), s.groups)
	}
	for name := range s.asked {
		j := &crdv1.Job{}
		j.Name = name
		s.Must(client.IgnoreNotFound(s.Client.Delete(s.Context(), j)))
	}
	for _, name := range s.groups {
		g := &crdv1.JobRunnerGroup{}
		g.Namespace, g.Name = s.ns, name
		s.Must(client.IgnoreNotFound(s.Client.Delete(s.Context(), g)))
	}
	var all []string
	_ = wait.Until(s.Context(), patience, "nothing is left", func() error {
		if all = s.left(); len(all) > 0 {
			return errors.New("something is left")
		}
		return nil
	})
	return strings.Join(all, ", ")
}

// left returns all objects, processes and rows.
func (s *scene) left() (all []string) {
	s.Helper()
	for kind, list := range map[string]client.ObjectList{"Job": &crdv1.JobList{}, "JobRunnerGroup": &crdv1.JobRunnerGroupList{}, "Pod": &corev1.PodList{}, "Service": &corev1.ServiceList{}} {
		s.List(list)
		for _, o := range items(list) {
			if _, is := s.asked[o.GetName()]; is || o.GetNamespace() == s.ns {
				all = append(all, fmt.Sprintf("%s %s (%v)", kind, o.GetName(), o.GetFinalizers()))
			}
		}
	}
	if here := s.node.left(); here != "" {
		all = append(all, here)
	}
	if s.plane != nil {
		all = append(all, s.plane.left()...)
	}
	return all
}

// podOf returns the name of a pod that nothing deletes.
func podOf(namespace string) *corev1.Pod {
	p := &corev1.Pod{}
	p.Namespace, p.Name = namespace, "forgotten"
	return p
}
