package replay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/routeserver/table"
)

// TestKeyedRequestsInRandomHistories plays random histories of sandboxes, members, workloads and
// Services, and sends in a model a request with each routing key to each Service after each step:
//
//   - none reaches the baseline of a member of its key, at no event of the routing log while the
//     sandbox has that member;
//   - where one arrives at another workload, or at no pod, the sandbox is not Ready, or has a caveat.
//
// Not in the model are virtual workloads, edges and consumers without Services (decision records
// 15, 35 and 19), and steps at which the controllers have not come to rest.
func TestKeyedRequestsInRandomHistories(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		h := &history{story: newStory(t), r: r, forks: map[string][]string{}, had: map[string]map[string]bool{}}
		h.do(ctx, "baseline shop/a shop/b", "")
		for range rapid.IntRange(3, 10).Draw(r, "steps") {
			h.before(ctx)
			h.step(ctx)
			h.check(ctx)
		}
	})
}

// history is a history of a cluster, and what the model knows of it.
type history struct {
	*story
	r     *rapid.T
	steps []string
	// forks are the workloads that the sandboxes fork.
	forks map[string][]string
	// had are the Services that have selected a workload since a sandbox forks it, by both.
	had map[string]map[string]bool
	// last is the table before the newest step, and routed its routes: workloads by sandbox.
	last   table.Table
	routed map[string][]string
}

// do plays one step of a story.
func (h *history) do(ctx context.Context, command, input string) {
	d := &datadriven.TestData{Input: input}
	words := strings.Fields(command)
	d.Cmd = words[0]
	for _, word := range words[1:] {
		key, values, valued := strings.Cut(word, "=")
		arg := datadriven.CmdArg{Key: key}
		if valued {
			arg.Vals = strings.Split(strings.Trim(values, "()"), ",")
		}
		d.CmdArgs = append(d.CmdArgs, arg)
	}
	h.steps = append(h.steps, command+"\n"+input)
	if _, err := h.story.step(ctx, d); err != nil {
		h.fatal(err)
	}
}

func (h *history) fatal(err error) {
	h.r.Fatalf("%v, after\n%s", err, strings.Join(h.steps, "\n"))
}

// step draws what happens next.
func (h *history) step(ctx context.Context) {
	of := func(name string, from ...string) string { return rapid.SampledFrom(from).Draw(h.r, name) }
	sandbox, workload := of("sandbox", "s1", "s2"), of("workload", "a", "b")
	switch of("step", "sandbox", "sandbox", "member", "end", "workload", "scale", "ready", "service", "canary", "rollout") {
	case "sandbox":
		h.forks[sandbox] = strings.Split(of("forks", "a", "b", "a,b"), ",")
		h.do(ctx, fmt.Sprintf("sandbox %s key=k%s forks=(shop/%s)", sandbox, sandbox, strings.Join(h.forks[sandbox], ",shop/")), "")
		h.do(ctx, "rollout", "")
	case "member":
		if slices.Contains(h.forks[sandbox], workload) {
			h.deleteMember(ctx, sandbox, workload)
		}
	case "end":
		if h.forks[sandbox] != nil {
			delete(h.forks, sandbox)
			h.do(ctx, "delete SignadotSandbox/"+sandbox, "")
		}
	case "workload":
		if h.deployment(ctx, workload) != nil {
			h.do(ctx, "delete Deployment/shop/"+workload, "")
			h.pod(ctx, workload, 0)
		} else {
			h.baseline(ctx, workload)
		}
	case "scale":
		if h.deployment(ctx, workload) != nil {
			n := rapid.IntRange(0, 1).Draw(h.r, "replicas")
			h.do(ctx, "objects", fmt.Sprintf("kind: Deployment\nmetadata: {name: %s, namespace: shop}\nspec: {replicas: %d}", workload, n))
			h.pod(ctx, workload, n)
			h.do(ctx, "rollout", "")
		}
	case "ready":
		if h.deployment(ctx, workload) != nil {
			h.do(ctx, "objects", fmt.Sprintf("kind: Deployment\nmetadata: {name: %s, namespace: shop}\nstatus: {replicas: 1, readyReplicas: 0, availableReplicas: 0}", workload))
		}
	case "service":
		to := of("selector", "app: a", "app: b", "app: none", "app: "+workload)
		h.do(ctx, "objects", fmt.Sprintf("kind: Service\nmetadata: {name: %s, namespace: shop}\nspec: {selector: {%s}}", workload, to))
	case "canary":
		h.do(ctx, "objects", fmt.Sprintf("kind: Deployment\nmetadata: {name: canary, namespace: shop}\nspec: {replicas: %d, selector: {matchLabels: {track: c}}, template: {metadata: {labels: {app: %s, track: c}}, spec: {containers: [{name: main, image: \"c:1\"}]}}}",
			rapid.IntRange(0, 1).Draw(h.r, "replicas"), workload))
		h.do(ctx, "rollout", "")
	default:
		h.do(ctx, "rollout", "")
	}
}

// baseline creates a workload again, and its Service where there is one as it is.
func (h *history) baseline(ctx context.Context, name string) {
	h.do(ctx, "objects", fmt.Sprintf(`kind: Deployment
metadata: {name: %[1]s, namespace: shop}
spec:
  replicas: 1
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}, annotations: {sidecar.signadot.com/inject: "true"}}
    spec: {containers: [{name: main, image: "%[1]s:1", ports: [{name: http, containerPort: 8080}]}]}`, name))
	h.pod(ctx, name, 1)
	h.do(ctx, "rollout", "")
}

// pod gives a workload one pod with a sidecar, or none.
func (h *history) pod(ctx context.Context, workload string, n int) {
	p := &corev1.Pod{}
	has := h.operator.cluster.Client.Get(ctx, client.ObjectKey{Namespace: "shop", Name: workload + "-1"}, p) == nil
	if has && n == 0 {
		h.do(ctx, "delete Pod/shop/"+workload+"-1", "")
	}
	if !has && n > 0 {
		h.do(ctx, "objects", fmt.Sprintf(`kind: Pod
metadata:
  name: %[1]s-1
  namespace: shop
  labels: {app: %[1]s, pod-template-hash: h}
  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: %[1]s-h, uid: %[1]s-h, controller: true}]
spec: {containers: [{name: main, image: "%[1]s:1"}]}
status: {phase: Running, containerStatuses: [{name: sd-sidecar, ready: true, image: x, imageID: x, restartCount: 0}]}`, workload))
	}
}

func (h *history) deleteMember(ctx context.Context, sandbox, workload string) {
	var all crdv1.ForkedWorkloadList
	if err := h.operator.cluster.Client.List(ctx, &all); err != nil {
		h.fatal(err)
	}
	for i := range all.Items {
		m := &all.Items[i]
		if ref, _ := m.BaselineRef(); ref.Name == workload && m.Labels[crdv1.LabelSandbox] == sandbox {
			h.forget(sandbox, workload)
			h.do(ctx, "delete ForkedWorkload/shop/"+m.Name, "")
			h.do(ctx, "rollout", "")
			return
		}
	}
}

// forget forgets the Services that a workload had: the status of its member is deleted with it.
func (h *history) forget(sandbox, workload string) { delete(h.had, sandbox+"/"+workload) }

func (h *history) deployment(ctx context.Context, name string) *appsv1.Deployment {
	d := &appsv1.Deployment{}
	if h.operator.cluster.Client.Get(ctx, client.ObjectKey{Namespace: "shop", Name: name}, d) != nil {
		return nil
	}
	return d
}

// before notes which workloads that a Service selects are routed before a step.
func (h *history) before(ctx context.Context) {
	now, err := h.current(ctx)
	if err != nil {
		h.fatal(err)
	}
	h.last, h.routed = now, map[string][]string{}
	var services corev1.ServiceList
	if err := h.operator.cluster.Client.List(ctx, &services); err != nil {
		h.fatal(err)
	}
	for sandbox, forks := range h.forks {
		for _, workload := range forks {
			selected := slices.ContainsFunc(services.Items, func(s corev1.Service) bool {
				return s.Labels[crdv1.LabelForkedWorkload] == "" && s.Spec.Selector["app"] == workload
			})
			if selected && decides(now, sandbox, workload) {
				h.routed[sandbox] = append(h.routed[sandbox], workload)
			}
		}
	}
}

// each checks the table after each event since the newest step.
func (h *history) each(ctx context.Context) {
	cursor, err := h.log.Read(ctx, h.last.Pos())
	if err != nil {
		h.fatal(err)
	}
	defer cursor.Close()
	tip, err := h.log.Tip(ctx)
	if err != nil {
		h.fatal(err)
	}
	for h.last.Pos().Seq < tip.Seq {
		events, unread := cursor.Next(ctx)
		facts, damaged := eventbus.Open(events)
		if err := errors.Join(unread, damaged); err != nil {
			h.fatal(err)
		}
		for _, fact := range facts {
			h.last = h.last.Apply(fact)
			for sandbox, workloads := range h.routed {
				for _, workload := range workloads {
					if slices.Contains(h.forks[sandbox], workload) && !decides(h.last, sandbox, workload) {
						h.fatal(fmt.Errorf("after event %d a request with the key of %s reaches the baseline %s of its member", fact.Pos.Seq, sandbox, workload))
					}
				}
			}
		}
	}
}

// decides reports whether a pod of a workload sends requests with the key of a sandbox to a fork, or
// refuses them.
func decides(now table.Table, sandbox, workload string) bool {
	rule, known := now.Lookup(table.Workload{Kind: "Deployment", Namespace: "shop", Name: workload}, "k"+sandbox)
	return known && slices.ContainsFunc(rule.Mappings, func(m table.Mapping) bool { return m.WorkloadPort == 8080 })
}

// check sends the requests.
func (h *history) check(ctx context.Context) {
	h.each(ctx)
	now, err := h.current(ctx)
	if err != nil {
		h.fatal(err)
	}
	var services corev1.ServiceList
	var workloads appsv1.DeploymentList
	if err := errors.Join(h.operator.cluster.Client.List(ctx, &services), h.operator.cluster.Client.List(ctx, &workloads)); err != nil {
		h.fatal(err)
	}
	workloads.Items = slices.DeleteFunc(workloads.Items, func(d appsv1.Deployment) bool { return d.Labels[crdv1.LabelForkedWorkload] != "" })
	for _, sandbox := range []string{"s1", "s2"} {
		for key := range h.had {
			name, workload, _ := strings.Cut(key, "/")
			if name == sandbox && !slices.Contains(h.forks[sandbox], workload) {
				h.forget(sandbox, workload)
			}
		}
		if h.forks[sandbox] == nil {
			continue
		}
		reported := h.reported(ctx, sandbox)
		for i := range services.Items {
			if s := &services.Items[i]; s.Labels[crdv1.LabelForkedWorkload] == "" {
				h.send(now, sandbox, s, workloads.Items, reported)
			}
		}
	}
}

// reported reports whether a sandbox is not Ready, or has a caveat.
func (h *history) reported(ctx context.Context, sandbox string) bool {
	s := &crdv1.SignadotSandbox{}
	if err := h.operator.cluster.Client.Get(ctx, client.ObjectKey{Name: sandbox}, s); err != nil {
		h.fatal(err)
	}
	ready := crdv1.FindCondition(s.Status.Conditions, crdv1.ConditionReady)
	return ready == nil || ready.Status != "True" || crdv1.FindCondition(s.Status.Conditions, crdv1.ConditionCaveats) != nil
}

// send sends a request with the key of a sandbox to each pod that a Service selects.
func (h *history) send(now table.Table, sandbox string, s *corev1.Service, workloads []appsv1.Deployment, reported bool) {
	selector := labels.SelectorFromSet(s.Spec.Selector)
	concerned, arrives := false, false
	var elsewhere []string
	for i := range workloads {
		d := &workloads[i]
		at := sandbox + "/" + d.Name
		member := slices.Contains(h.forks[sandbox], d.Name)
		selects := selector.Matches(labels.Set(d.Spec.Template.Labels))
		if member && selects && h.had[at] == nil {
			h.had[at] = map[string]bool{}
		}
		if member && selects {
			h.had[at][s.Name] = true
		}
		concerned = concerned || member && h.had[at][s.Name]
		if !selects || d.Status.ReadyReplicas == 0 {
			continue
		}
		arrives = true
		switch {
		case decides(now, sandbox, d.Name):
		case member:
			h.fatal(fmt.Errorf("a request to Service %s with the key of %s reaches the baseline %s of its member", s.Name, sandbox, d.Name))
		default:
			elsewhere = append(elsewhere, d.Name)
		}
	}
	if concerned && !reported && (len(elsewhere) > 0 || !arrives) {
		h.fatal(fmt.Errorf("sandbox %s is Ready without a caveat, and a request to Service %s with its key reaches %v", sandbox, s.Name, elsewhere))
	}
}
