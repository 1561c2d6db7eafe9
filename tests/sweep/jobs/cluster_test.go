package jobs

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubernetesscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tests/figures"
	"switchyard.dev/tools/demo"
	"switchyard.dev/tools/demo/resource"
	"switchyard.dev/tools/wait"
)

var node = flag.Bool("node", false, "run on the one-node cluster")

// The run on a node.
const (
	nodeJobs, nodeNamespace = 50, "sweep-jobs"
	nodeKillEvery           = 3 * time.Second
	nodePatience            = 5 * time.Minute
	// nodeImage has the interpreter of the scripts.
	nodeImage = "switchyard.dev/debian:dev"
)

// The runner groups: of pods that are reused, and of others.
const (
	reused, fresh         = "reused", "fresh"
	reusedPods, freshPods = 3, 2
)

// onNode is a run in a cluster with Switchyard.
type onNode struct {
	client.Client
	step   func(format string, args ...any)
	random *rand.Rand
	ledger *ledger
	// api is the address of the API server.
	api string
	evidence
	killed map[string]int
}

// serveNode prepares the one-node cluster, and runs this program again inside its network.
func serveNode() error {
	code, err := demo.RunInsideOf(context.Background(), "../../..", func(ctx context.Context, c demo.Config) error {
		return resource.PrepareImages(ctx, c, "debian")
	})
	if err == nil && code != 0 {
		err = fmt.Errorf("the run in the cluster has ended with code %d", code)
	}
	return err
}

// TestJobsAreKilledOnTheNode runs jobs in a cluster with Switchyard, inside its network, while their pods are deleted without
// a grace period or evicted, and its API server is killed.
func TestJobsAreKilledOnTheNode(t *testing.T) {
	if !*node {
		t.Skip("without -node: make sweep-jobs-node")
	}
	if err := runOnNode(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func runOnNode(ctx context.Context) error {
	access, err := clientcmd.BuildConfigFromFlags("", os.Getenv(clientcmd.RecommendedConfigPathEnvVar))
	if err != nil {
		return err
	}
	r := &onNode{step: demo.Steps(), killed: map[string]int{}, evidence: evidence{asked: map[string]asked{}, struck: map[string]bool{}}}
	seed := uint64(time.Now().UnixNano())
	r.random = rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // It can be repeated.
	at, err := url.Parse(access.Host)
	if err != nil {
		return err
	}
	r.api = at.Host
	if r.ledger, err = newLedger(at.Hostname()); err != nil {
		return err
	}
	defer r.ledger.Close()
	scheme := runtime.NewScheme()
	if err := errors.Join(kubernetesscheme.AddToScheme(scheme), crdv1.AddToScheme(scheme)); err != nil {
		return err
	}
	if r.Client, err = client.New(access, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	for _, act := range []func(context.Context) error{r.groups, r.run, r.end, r.nothingIsLeft} {
		if err := act(ctx); err != nil {
			return fmt.Errorf("seed %d: %w", seed, err)
		}
	}
	return nil
}

// try repeats a function until it succeeds: the API server can be dead.
func (r *onNode) try(ctx context.Context, what string, f func() error) error {
	return wait.Until(ctx, nodePatience, what, f)
}

// groups creates the runner groups, and waits for their pods.
func (r *onNode) groups(ctx context.Context) error {
	r.step("two runner groups: 3 pods that are reused, and 2 that are not")
	if err := r.nothingIsLeft(ctx); err != nil { // of a run that was cut off
		return err
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: nodeNamespace}}
	if err := r.Create(ctx, ns); err != nil {
		return err
	}
	for name, replicas := range map[string]int32{reused: reusedPods, fresh: freshPods} {
		g := &crdv1.JobRunnerGroup{ObjectMeta: metav1.ObjectMeta{Namespace: nodeNamespace, Name: name}}
		g.Spec.Image, g.Spec.Replicas, g.Spec.ReusePods = nodeImage, &replicas, name == reused
		if err := r.Create(ctx, g); err != nil {
			return err
		}
	}
	return r.try(ctx, "the pods of the runner groups are ready", func() error {
		pods, err := r.pods(ctx)
		for _, p := range pods {
			if !slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
				return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
			}) {
				err = errors.Join(err, fmt.Errorf("pod %s is not", p.Name))
			}
		}
		if len(pods) < reusedPods+freshPods {
			err = errors.Join(err, fmt.Errorf("there are %d pods", len(pods)))
		}
		return err
	})
}

// pods returns those of the runner groups.
func (r *onNode) pods(ctx context.Context) ([]corev1.Pod, error) {
	var list corev1.PodList
	err := r.List(ctx, &list, client.InNamespace(nodeNamespace), client.HasLabels{crdv1.JobRunnerGroupLabel})
	return list.Items, err
}

// run submits the jobs, and kills something until all have ended.
func (r *onNode) run(ctx context.Context) error {
	r.step("%d jobs, while every %s a pod is deleted or evicted, or the API server is killed", nodeJobs, nodeKillEvery)
	kills := []func(context.Context) error{r.deletePod, r.killAPIServer, r.evictPod}
	next, last := time.Now().Add(nodeKillEvery), time.Now()
	for n, before := 0, -1; ; {
		if len(r.asked) < nodeJobs {
			if err := r.submit(ctx, len(r.asked)); err != nil {
				return err
			}
		}
		left, err := r.unended(ctx)
		if err == nil && len(left) == 0 && len(r.asked) == nodeJobs {
			return nil
		}
		if err == nil && len(left) != before {
			before, last = len(left), time.Now()
		}
		if time.Since(last) > nodePatience {
			return fmt.Errorf("no job has ended for %s: %v", nodePatience, left)
		}
		if err := wait.For(ctx, 200*time.Millisecond); err != nil {
			return err
		}
		if time.Now().Before(next) {
			continue
		}
		next = time.Now().Add(nodeKillEvery)
		if err := kills[n%len(kills)](ctx); err != nil {
			return err
		}
		n++
	}
}

// submit creates the i-th job: every fourth one fails by itself, and every other one may run again.
func (r *onNode) submit(ctx context.Context, i int) error {
	a, group := asked{retries: i % 2}, reused
	if i%4 == 3 {
		a.code = 3
	}
	if i%5 == 4 {
		group = fresh
	}
	j := &crdv1.Job{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", nodeNamespace, i), Annotations: map[string]string{crdv1.AnnotationRetries: fmt.Sprint(a.retries)}}}
	j.Spec.RunnerGroup = crdv1.NamespacedName{Namespace: nodeNamespace, Name: group}
	host, port, _ := net.SplitHostPort(r.ledger.l.Addr().String())
	j.Spec.Content.Script = fmt.Sprintf(`#!/bin/bash
set -e
record() { exec 3<>/dev/tcp/%s/%s; echo "$SIGNADOT_CONTROL_JOB_NAME $*" >&3; read -r _ <&3; exec 3>&-; }
record begun
sleep %.2f
record end %d
exit %d
`, host, port, 0.5+4*r.random.Float64(), a.code, a.code)
	r.asked[j.Name] = a
	return r.try(ctx, "job "+j.Name+" is created", func() error { return client.IgnoreAlreadyExists(r.Create(ctx, j.DeepCopy())) })
}

// unended reads the statuses of all jobs, and returns the names of those that have not ended.
func (r *onNode) unended(ctx context.Context) (left []string, err error) {
	var list crdv1.JobList
	if err := r.List(ctx, &list); err != nil {
		return nil, err
	}
	r.jobs = map[string]crdv1.JobStatus{}
	for _, j := range list.Items {
		r.jobs[j.Name] = j.Status
	}
	for name := range r.asked {
		if st, is := r.jobs[name]; !is || st.State == nil || st.State.Terminated == nil {
			left = append(left, name)
		}
	}
	return left, nil
}

// pick returns a pod with a job, or any; nil: there is none.
func (r *onNode) pick(ctx context.Context) (p *corev1.Pod, err error) {
	var pods []corev1.Pod
	if err := r.try(ctx, "pods are listed", func() (err error) { pods, err = r.pods(ctx); return err }); err != nil {
		return nil, err
	}
	pods = slices.DeleteFunc(pods, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
	if busy := slices.DeleteFunc(slices.Clone(pods), func(p corev1.Pod) bool { return p.Labels[crdv1.AssignedJobLabel] == "" }); len(busy) > 0 {
		pods = busy
	}
	if len(pods) == 0 {
		return nil, nil
	}
	return &pods[r.random.IntN(len(pods))], nil
}

// deletePod deletes a pod at once: the API server forgets it while its processes still run.
func (r *onNode) deletePod(ctx context.Context) error {
	p, err := r.pick(ctx)
	if p == nil || err != nil {
		return err
	}
	r.struck[string(p.UID)] = true
	r.killed[killPod]++
	return client.IgnoreNotFound(r.Delete(ctx, p, client.GracePeriodSeconds(0), client.Preconditions{UID: &p.UID}))
}

// evictPod evicts one.
func (r *onNode) evictPod(ctx context.Context) error {
	p, err := r.pick(ctx)
	if p == nil || err != nil {
		return err
	}
	r.struck[string(p.UID)] = true
	r.killed[evictPod]++
	return client.IgnoreNotFound(r.SubResource("eviction").Create(ctx, p, &policyv1.Eviction{}))
}

// end compares the statuses with the ledger.
func (r *onNode) end(context.Context) error {
	ran, err := read(r.ledger.text())
	if err != nil {
		return err
	}
	r.evidence.ledger = ran
	got := r.judge()
	fmt.Println(strings.Join(got.findings, "\n"))
	fmt.Printf("killed: %v; of %d jobs %d were lost, and %d ran again\n", r.killed, nodeJobs, got.lost, got.again)
	figures.Text(os.Stdout, "jobs-node-false-successes", got.falseSuccesses, "jobs", fmt.Sprintf("0 of %d", nodeJobs), got.falseSuccesses == 0)
	figures.Text(os.Stdout, "jobs-node-wrong", len(got.findings), "findings", "0", len(got.findings) == 0)
	if len(got.findings) > 0 {
		return fmt.Errorf("%d findings", len(got.findings))
	}
	return nil
}

// nothingIsLeft deletes everything, and waits until no object and no process is left.
func (r *onNode) nothingIsLeft(ctx context.Context) error {
	for i := range nodeJobs {
		j := &crdv1.Job{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", nodeNamespace, i)}}
		if err := client.IgnoreNotFound(r.Delete(ctx, j)); err != nil {
			return err
		}
	}
	for _, name := range []string{reused, fresh} {
		g := &crdv1.JobRunnerGroup{ObjectMeta: metav1.ObjectMeta{Namespace: nodeNamespace, Name: name}}
		if err := client.IgnoreNotFound(r.Delete(ctx, g)); err != nil {
			return err
		}
	}
	err := r.try(ctx, "nothing is left", func() error {
		left, err := r.leftovers(ctx)
		if err == nil && len(left) > 0 {
			err = errors.New(strings.Join(left, ", "))
		}
		return err
	})
	if err != nil {
		return err
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: nodeNamespace}}
	if err := client.IgnoreNotFound(r.Delete(ctx, ns)); err != nil {
		return err
	}
	return r.try(ctx, "the namespace is deleted", func() error {
		err := r.Get(ctx, client.ObjectKeyFromObject(ns), ns)
		if err == nil {
			err = errors.New("it is there")
		}
		return client.IgnoreNotFound(err)
	})
}

// leftovers returns the objects of the operator, and processes of scripts.
func (r *onNode) leftovers(ctx context.Context) (all []string, err error) {
	for kind, list := range map[string]client.ObjectList{"Job": &crdv1.JobList{}, "JobRunnerGroup": &crdv1.JobRunnerGroupList{}, "Pod": &corev1.PodList{}, "Service": &corev1.ServiceList{}} {
		if err := r.List(ctx, list); err != nil {
			return nil, err
		}
		for _, o := range items(list) {
			if strings.HasPrefix(o.GetName(), nodeNamespace+"-") || o.GetNamespace() == nodeNamespace {
				all = append(all, kind+" "+o.GetName())
			}
		}
	}
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		if text, _ := os.ReadFile(file); strings.Contains(string(text), "SIGNADOT_CONTROL_JOB_NAME="+nodeNamespace+"-") { // it may have ended
			all = append(all, "process "+filepath.Base(filepath.Dir(file)))
		}
	}
	return all, err
}

// ledger is a server that scripts send lines to. It answers once it has them.
type ledger struct {
	l net.Listener

	mu    sync.Mutex
	lines strings.Builder
}

// newLedger listens at the address of the API server, which pods reach.
func newLedger(host string) (*ledger, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0")) //nolint:noctx // until Close
	if err != nil {
		return nil, fmt.Errorf("listen for scripts on the node: %w", err)
	}
	n := &ledger{l: l}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go n.record(c)
		}
	}()
	return n, nil
}

func (n *ledger) record(c net.Conn) {
	defer c.Close()
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		return
	}
	n.mu.Lock()
	n.lines.WriteString(line)
	n.mu.Unlock()
	_, _ = io.WriteString(c, "recorded\n") // the script may have been killed
}

func (n *ledger) text() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.lines.String()
}

// Close ends it.
func (n *ledger) Close() error { return n.l.Close() }

// items returns the objects of a list.
func items(list client.ObjectList) (out []client.Object) {
	objects, _ := meta.ExtractList(list) // a list has items
	for _, o := range objects {
		out = append(out, o.(client.Object))
	}
	return out
}
