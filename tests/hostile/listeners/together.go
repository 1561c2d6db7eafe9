package listeners

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"switchyard.dev/tests/figures"
	"switchyard.dev/tests/hostile/attacks"
	"switchyard.dev/tests/process"
	"switchyard.dev/tools/demo"
	"switchyard.dev/tools/traffic"
	"switchyard.dev/tools/wait"
)

// Outcome is the service during all of the most expensive attacks together.
type Outcome struct {
	// Attackers counts their connections, once all had come.
	Attackers Counts
	// Succeeded is the time from the deletion of the leader's pod until a change by its successor was served; Ready is the time until a sandbox was Ready.
	Succeeded, Ready time.Duration
	// Injected is how many of Pods pods got their sidecar.
	Injected, Pods int
}

// pods is the number of pods to create, atOnce the number of concurrent requests.
const (
	pods   = 200
	atOnce = 20
)

// What the outcome is to be.
const (
	succeedWithin = 10 * time.Second
	readyWithin   = 3 * time.Second
)

// together makes n attackers read the log, wait, request all rules without reading them, and keep
// idle connections to the webhooks.
func (w *World) together(ctx context.Context, n int) (o *Outcome, err error) {
	const sandbox = "besieged"
	if err := remove(ctx, sandbox); err != nil {
		return nil, err
	}
	crowd, err := process.Start(Role)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, crowd.Close()) }()
	for _, one := range []struct {
		at     int
		attack attacks.Attack
	}{{7778, attacks.Follows}, {7777, attacks.Waits}, {7778, attacks.Unread(rules)}, {9443, attacks.Silent}} {
		if err := w.send(crowd, find(one.at), n, one.attack); err != nil {
			return nil, err
		}
	}
	_ = wait.For(ctx, time.Duration(n)*time.Millisecond+3*time.Second) // until all have come
	o = &Outcome{Pods: pods}
	if err := crowd.Call("Count", struct{}{}, &o.Attackers); err != nil {
		return nil, err
	}
	if o.Ready, err = ready(ctx, sandbox); err != nil {
		return nil, err
	}
	if o.Injected, err = w.inject(ctx); err != nil {
		return nil, err
	}
	if o.Succeeded, err = w.replaceLeader(ctx, sandbox); err != nil {
		return nil, err
	}
	return o, remove(ctx, sandbox)
}

// find returns the listener on a port that only one program has.
func find(port int) *Listener {
	for _, l := range All() {
		if l.Port == port {
			return l
		}
	}
	return nil
}

func remove(ctx context.Context, sandbox string) error {
	_, err := demo.Kubectl(ctx, "", "delete", "signadotsandbox", sandbox, "--ignore-not-found", "--timeout=60s")
	return err
}

// ready makes a sandbox that forks customer and returns how long it took to be Ready.
func ready(ctx context.Context, sandbox string) (time.Duration, error) {
	manifest := fmt.Sprintf(`{"apiVersion":"signadot.com/v1","kind":"SignadotSandbox","metadata":{"name":%[1]q},
"spec":{"id":%[1]q,"name":%[1]q,"customization":{"patches":[{
  "target":{"apiVersion":"apps/v1","kind":"Deployment","namespace":"hotrod","name":"customer"},
  "strategic":{"spec":{"template":{"spec":{"containers":[{"name":"hotrod","env":[{"name":"BESIEGED","value":"1"}]}]}}}}}]}}}`, sandbox)
	begun := time.Now()
	if _, err := demo.Kubectl(ctx, manifest, "apply", "-f", "-"); err != nil {
		return 0, err
	}
	_, err := demo.Kubectl(ctx, "", "wait", "signadotsandbox/"+sandbox, "--for=condition=Ready", "--timeout=120s")
	return time.Since(begun), err
}

// inject creates pods and returns the number that got a sidecar.
func (w *World) inject(ctx context.Context) (int, error) {
	honest, err := injected(w, nil)
	if err != nil {
		return 0, err
	}
	var all errgroup.Group
	var got atomic.Int64
	all.SetLimit(atOnce)
	for range pods {
		all.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			if honest(ctx) == nil {
				got.Add(1)
			}
			return nil
		})
	}
	_ = all.Wait() // how many got one is counted
	return int(got.Load()), nil
}

// replaceLeader deletes the leader's pod and returns the time until a change was served that another leader
// published.
func (w *World) replaceLeader(ctx context.Context, sandbox string) (time.Duration, error) {
	lease, err := demo.Kubectl(ctx, "", "get", "lease", "-n", manager.Namespace, "-o", `jsonpath={.items[?(@.spec.holderIdentity)].spec.holderIdentity}`)
	if err != nil {
		return 0, err
	}
	var leader string
	for _, pod := range w.pods[manager.Name] {
		if strings.Contains(lease, pod.Name) {
			leader = pod.Name
		}
	}
	if leader == "" {
		return 0, fmt.Errorf("none of the operator's pods is the leader: the holders of the leases are %q", lease)
	}
	fork, err := demo.Kubectl(ctx, "", "get", "forkedworkloads", "-n", "hotrod", "-l", "signadot.com/sandbox="+sandbox, "-o", "jsonpath={.items[0].metadata.name}")
	if err != nil {
		return 0, err
	}
	begun := time.Now()
	if err := w.client.CoreV1().Pods(manager.Namespace).Delete(ctx, leader, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
		return 0, err
	}
	key := sandbox + "-" + leader
	change := fmt.Sprintf(`{"apiVersion":"signadot.com/v1","kind":"RoutingConfig","metadata":{"name":%q},
"spec":{"sandboxedWorkloads":[{"kind":"ForkedWorkload","namespace":"hotrod","name":%q,"sandboxName":%q}]}}`, key, fork, sandbox)
	if _, err := demo.Kubectl(ctx, change, "apply", "-f", "-"); err != nil {
		return 0, err
	}
	defer func() { _, _ = demo.Kubectl(ctx, "", "delete", "routingconfig", key, "--wait=false") }() // it is deleted with its sandbox too
	ask := has("http://"+w.address(find(7778), 0)+rules+"?routingKey="+key, key)
	for time.Since(begun) < time.Minute {
		if ask(ctx) == nil {
			return time.Since(begun), nil
		}
		_ = wait.For(ctx, 20*time.Millisecond)
	}
	return 0, errors.New("no change was served within a minute after the leader's pod was deleted")
}

// has asks an address until the answer has a text in it, which the address has too.
func has(url, text string) call {
	return checked(&http.Transport{DialContext: from(honestAddress, patience).DialContext}, url, func(a traffic.Answer) error {
		if !strings.Contains(string(a.Body), text) {
			return errors.New("not yet")
		}
		return nil
	})
}

func (o *Outcome) print(out io.Writer) {
	fmt.Fprintf(out, "together: %d connections of attackers were open, of %d that were made\n", o.Attackers.There, o.Attackers.Opened)
	figures.Text(out, "TOGETHER_LEADER_CHANGE", fmt.Sprintf("%.2f", o.Succeeded.Seconds()), "s", fmt.Sprintf("within %.0f", succeedWithin.Seconds()), o.Succeeded <= succeedWithin)
	figures.Text(out, "TOGETHER_SANDBOX_READY", fmt.Sprintf("%.2f", o.Ready.Seconds()), "s", fmt.Sprintf("within %.0f", readyWithin.Seconds()), o.Ready <= readyWithin)
	figures.Text(out, "TOGETHER_INJECTED", o.Injected, "pods", fmt.Sprintf("%d of %d", o.Pods, o.Pods), o.Injected == o.Pods)
}
