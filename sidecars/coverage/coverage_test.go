package coverage_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/sidecars/coverage"
	"switchyard.dev/sidecars/devmesh"
	"switchyard.dev/sidecars/inject"
	"switchyard.dev/sidecars/redirect/spec"
)

var now = inject.Settings{Sidecar: "sidecar:2", Redirect: "init:2", IptablesMode: "auto", Label: "true"}

// pod makes a running pod of a Deployment, as changes say.
func pod(deployment, name string, changes ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Annotations: map[string]string{},
			Labels:          map[string]string{"pod-template-hash": "h"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: deployment + "-h", Controller: new(true)}}},
		Spec:   corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "main"}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	for _, change := range changes {
		change(p)
	}
	return p
}

// with adds the sidecar's containers to a pod, with these images.
func with(sidecar, redirect string, ready bool) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.InitContainers = append(p.Spec.InitContainers, corev1.Container{Name: devmesh.InitContainerName, Image: redirect})
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: devmesh.ContainerName, Image: sidecar})
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: devmesh.ContainerName, Ready: ready})
		p.Annotations[crdv1.AnnotationProcessed] = inject.Injected
		p.Labels[inject.LabelInjected] = "true"
	}
}

// redirectedIn sets the mode in which a pod's connections are redirected.
func redirectedIn(mode string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.InitContainers[0].Env = []corev1.EnvVar{{Name: spec.EnvMode, Value: mode}}
	}
}

// unlabelled makes a pod one that was injected before there was the label.
func unlabelled(p *corev1.Pod) { delete(p.Labels, inject.LabelInjected) }

func refused(why string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Annotations[crdv1.AnnotationProcessed] = why }
}

// beside adds a container of this name.
func beside(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: name}) }
}

func pending(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }

// failing makes the sidecar one that runs, and is not ready.
func failing(p *corev1.Pod) {
	p.Status.InitContainerStatuses[0].State.Running = &corev1.ContainerStateRunning{}
}

// native makes the sidecar an init container.
func native(p *corev1.Pod) {
	p.Spec.InitContainers = append(p.Spec.InitContainers, p.Spec.Containers[1])
	p.Spec.Containers = p.Spec.Containers[:1]
	p.Status.InitContainerStatuses, p.Status.ContainerStatuses = p.Status.ContainerStatuses, nil
}

// trusting makes the sidecar one that speaks TLS, with those it was made to trust.
func trusting(p *corev1.Pod) {
	p.Spec.Containers[1].Env = append(p.Spec.Containers[1].Env, corev1.EnvVar{Name: devmesh.EnvTrust, Value: "PEM"})
}

func TestAPodIsInOneState(t *testing.T) {
	everyone := coverage.Connected{"shop/p": true}
	overTLS := inject.Config{TLS: true}.Settings()
	overTLS = inject.Settings{RouteServer: overTLS.RouteServer}
	tests := map[string]struct {
		pod       *corev1.Pod
		now       inject.Settings
		connected coverage.Connected
		want      coverage.State
	}{
		"without a sidecar":                     {pod("a", "p"), now, everyone, coverage.Missing},
		"refused one":                           {pod("a", "p", refused("why")), now, everyone, coverage.Missing},
		"with a ready one":                      {pod("a", "p", with("sidecar:2", "init:2", true)), now, everyone, coverage.OK},
		"with a native one":                     {pod("a", "p", with("sidecar:2", "init:2", true), native), now, everyone, coverage.OK},
		"with one that is not ready":            {pod("a", "p", with("sidecar:2", "init:2", false)), now, everyone, coverage.NotReady},
		"not ready and of another image":        {pod("a", "p", with("sidecar:1", "init:2", false)), now, everyone, coverage.NotReady},
		"with an older sidecar":                 {pod("a", "p", with("sidecar:1", "init:2", true)), now, everyone, coverage.Outdated},
		"injected by an earlier version":        {pod("a", "p", with("sidecar:2", "init:2", true), unlabelled), now, everyone, coverage.Outdated},
		"with an older init container":          {pod("a", "p", with("sidecar:2", "init:1", true), native), now, everyone, coverage.Outdated},
		"redirected in another mode":            {pod("a", "p", with("sidecar:2", "init:2", true), redirectedIn("legacy")), now, everyone, coverage.Outdated},
		"of a chart before TLS":                 {pod("a", "p", with("sidecar:2", "init:2", true)), overTLS, everyone, coverage.Outdated},
		"that speaks TLS":                       {pod("a", "p", with("sidecar:2", "init:2", true), trusting), overTLS, everyone, coverage.OK},
		"redirected in the mode of now":         {pod("a", "p", with("sidecar:2", "init:2", true), redirectedIn("auto")), now, everyone, coverage.OK},
		"with an older one and nobody knows":    {pod("a", "p", with("sidecar:1", "init:1", true)), inject.Settings{}, everyone, coverage.OK},
		"not connected":                         {pod("a", "p", with("sidecar:2", "init:2", true)), now, coverage.Connected{"shop/q": true}, coverage.Behind},
		"connected, with older rules":           {pod("a", "p", with("sidecar:2", "init:2", true)), now, coverage.Connected{"shop/p": false}, coverage.Behind},
		"nobody knows who is connected":         {pod("a", "p", with("sidecar:2", "init:2", true)), now, nil, coverage.OK},
		"outdated and not connected":            {pod("a", "p", with("sidecar:1", "init:2", true)), now, coverage.Connected{}, coverage.Outdated},
		"before its containers have any status": {pod("a", "p", with("sidecar:2", "init:2", true), func(p *corev1.Pod) { p.Status.ContainerStatuses = nil }), now, everyone, coverage.NotReady},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := coverage.Of(coverage.Subject{Pods: []coverage.Pod{coverage.PodOf(tt.pod)}}, tt.now, tt.connected)
			if r.Count(tt.want) != 1 {
				t.Errorf("it is in %v, want %s", r.Pods, tt.want)
			}
		})
	}
}

func TestReportsAreOfWorkloadsThatAreConcerned(t *testing.T) {
	of := func(name string) inject.Workload {
		return inject.Workload{Kind: "Deployment", Namespace: "shop", Name: name}
	}
	known := map[inject.Workload]bool{of("asks"): true, of("forked"): false, of("idle"): true, of("consumer"): false}
	end := func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }
	going := func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }
	fork := func(p *corev1.Pod) { p.Labels[crdv1.LabelForkedWorkload] = "f" }
	orphan := func(p *corev1.Pod) { p.OwnerReferences = nil }
	rollout := func(p *corev1.Pod) { p.Labels = map[string]string{"rollouts-pod-template-hash": "h"} }
	pods := []*corev1.Pod{
		pod("other", "other-1"), pod("consumer", "consumer-1"), pod("forked", "forked-1"),
		pod("asks", "asks-2"), pod("asks", "asks-1", with("sidecar:1", "init:2", true)), pod("asks", "asks-3", with("sidecar:2", "init:2", true)),
		pod("asks", "ended", end), pod("asks", "going", going), pod("asks", "fork", fork), pod("asks", "orphan", orphan),
		pod("labelled", "labelled-1", with("sidecar:2", "init:2", false)), pod("labelled", "labelled-2"),
		pod("refused", "refused-1", refused("the pod uses the node's network")),
		pod("rolled", "rolled-1", rollout, with("sidecar:2", "init:2", true)),
	}
	needs := func(w inject.Workload, pods []*corev1.Pod) bool {
		return w.Name != "consumer" || len(pods) != 1 || pods[0].Name != "consumer-1"
	}
	var got []string
	for _, r := range coverage.Reports(known, slices.Values(pods), now, nil, needs, nil) {
		line := r.Workload.Kind + " " + r.Workload.Name
		for _, s := range []coverage.State{coverage.OK, coverage.Outdated, coverage.NotReady, coverage.Missing, coverage.NotNeeded} {
			if names := r.Pods[s]; len(names) > 0 {
				line += ", " + string(s) + ": " + strings.Join(names, " ")
			}
		}
		got = append(got, line)
	}
	want := []string{
		"Deployment asks, ok: asks-3, outdated: asks-1, missing: asks-2",
		"Deployment consumer, not_needed: consumer-1",
		"Deployment forked, missing: forked-1",
		"Deployment idle",
		"Deployment labelled, not_ready: labelled-1, missing: labelled-2",
		"Deployment refused, missing: refused-1",
		"ArgoRollout rolled, ok: rolled-1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAReportNamesTheRemedy(t *testing.T) {
	restart := "kubectl rollout restart -n shop deployment/a"
	tests := map[string]struct {
		asks bool
		pods []*corev1.Pod
		full bool
		says []string
	}{
		"nobody asked":                  {false, []*corev1.Pod{pod("a", "p")}, false, []string{`annotate its pod template with sidecar.signadot.com/inject: "true"`}},
		"all is well":                   {true, []*corev1.Pod{pod("a", "p", with("sidecar:2", "init:2", true))}, true, nil},
		"there are no pods":             {true, nil, true, nil},
		"a pod is older":                {true, []*corev1.Pod{pod("a", "p2"), pod("a", "p1")}, false, []string{"p1, p2 started before a sidecar was asked for, or while the operator was away: " + restart}},
		"pods were refused":             {true, []*corev1.Pod{pod("a", "p", refused("set hostNetwork to false"))}, false, []string{"p got no sidecar: set hostNetwork to false", "once that is mended: " + restart}},
		"an annotation is to be mended": {true, []*corev1.Pod{pod("a", "p", refused("annotation x: no port"))}, false, []string{"p got no sidecar: annotation x: no port"}},
		"a namespace's pods":            {false, []*corev1.Pod{pod("a", "p", refused("it runs on Windows"))}, false, []string{"p got no sidecar: it runs on Windows", restart}},
		"one of each":                   {true, []*corev1.Pod{pod("a", "p1", refused("why")), pod("a", "p2")}, false, []string{"p1 got no sidecar: why", "p2 started before"}},
		"not ready":                     {true, []*corev1.Pod{pod("a", "p", with("sidecar:2", "init:2", false))}, false, []string{"kubectl logs -n shop p -c sd-sidecar"}},
		"not scheduled": {true, []*corev1.Pod{pod("a", "p", with("sidecar:2", "init:2", false), pending)}, false,
			[]string{"the sidecar has not started in p, which is Pending: kubectl describe pod -n shop p"}},
		"one fails while its pod is Pending": {true, []*corev1.Pod{pod("a", "p", with("sidecar:2", "init:2", false), native, pending, failing)}, false,
			[]string{"the sidecar is not ready in p: kubectl logs -n shop p -c sd-sidecar"}},
		"outdated": {true, []*corev1.Pod{pod("a", "p", with("sidecar:1", "init:2", true))}, false, []string{"OUTDATED in p (injected with another image of the sidecar than now): " + restart}},
		"many":     {true, []*corev1.Pod{pod("a", "p4"), pod("a", "p3"), pod("a", "p2"), pod("a", "p1")}, false, []string{"p1, p2, p3, … started before"}},
		"beside another proxy": {true, []*corev1.Pod{pod("a", "p", with("sidecar:2", "init:2", true), beside("istio-proxy"))}, false,
			[]string{"the sidecar shares its pod with istio-proxy, the proxy of Istio, in p, which is not supported, and new pods get no sidecar: set the label"}},
		"another proxy alone": {false, []*corev1.Pod{pod("a", "p", beside("istio-proxy"))}, false, []string{"annotate its pod template"}},
		"not marked, not had": {true, []*corev1.Pod{pod("a", "p", refused(inject.Injected))}, false, []string{"p started before"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := inject.Workload{Kind: "Deployment", Namespace: "shop", Name: "a"}
			var pods []coverage.Pod
			for _, p := range tt.pods {
				pods = append(pods, coverage.PodOf(p))
			}
			r := coverage.Of(coverage.Subject{Workload: w, Asks: tt.asks, Pods: pods}, now, nil)
			todo := strings.Join(r.ToDo(), "\n")
			for _, says := range tt.says {
				if !strings.Contains(todo, says) {
					t.Errorf("it does not say %q:\n%s", says, todo)
				}
			}
			if r.Full() != tt.full || tt.full != (todo == "") {
				t.Errorf("full %t, to do: %s", r.Full(), todo)
			}
		})
	}
	for name, pods := range map[string][]coverage.Pod{
		"no sidecar": {{Name: "p"}}, "was refused one": {{Name: "p", Processed: "why"}}, "no pods": nil,
		"one has a ready one": {{Name: "p"}, {Name: "q", Present: true, Ready: true}},
	} {
		unled := coverage.Of(coverage.Subject{Unrouted: true, Pods: pods}, inject.Settings{}, nil)
		if !unled.Full() || len(unled.ToDo()) > 0 || unled.Count(coverage.Missing) > 0 {
			t.Errorf("no Service leads to it, %s: %s, %q", name, unled.Counts(), unled.ToDo())
		}
	}
	unled := coverage.Of(coverage.Subject{Unrouted: true, Pods: []coverage.Pod{{Name: "p", Present: true}}}, now, nil)
	if unled.Full() || len(unled.ToDo()) == 0 {
		t.Error("a sidecar that is there though not needed is looked at")
	}
	mended := coverage.Of(coverage.Subject{Asks: true, Pods: []coverage.Pod{{Name: "p", Processed: "annotation x: no port"}}}, now, nil)
	if todo := strings.Join(mended.ToDo(), "\n"); strings.Contains(todo, "restart") {
		t.Errorf("a changed annotation restarts the pods itself: %s", todo)
	}
	behind := coverage.Of(coverage.Subject{Pods: []coverage.Pod{{Name: "p", Present: true, Ready: true}}}, now, coverage.Connected{})
	if todo := strings.Join(behind.ToDo(), "\n"); !strings.Contains(todo, "switchyard sidecars") || behind.Full() {
		t.Errorf("behind: %s", todo)
	}
}

// The pods of a workload are as they are because the API server refuses new ones: a restart, which
// makes new ones, is no remedy.
func TestRefusedPodsAreRepeatedWithWhatToChange(t *testing.T) {
	w := inject.Workload{Kind: "Deployment", Namespace: "shop", Name: "a"}
	for words, says := range map[string]string{
		`pods "a" is forbidden: violates PodSecurity "baseline:latest": non-default capabilities (container "sd-sidecar-init")`: "exempt the init container sd-sidecar-init",
		"denied: init containers may not add the capability NET_ADMIN":                                                          "exempt the init container sd-sidecar-init",
		"exceeded quota: objects, requested: pods=1, used: pods=2, limited: pods=2":                                             "raise that quota of the namespace",
		"failed quota: q: must specify limits.cpu for: main":                                                                    "raise that quota of the namespace",
		"maximum memory usage per Container is 256Mi, but limit is 1Gi":                                                         "change that LimitRange of the namespace",
		"minimum cpu usage per Pod is 1, but request is 100m":                                                                   "change that LimitRange of the namespace",
		`error looking up service account shop/a: serviceaccount "a" not found`:                                                 "change what these words name",
	} {
		for name, pods := range map[string][]*corev1.Pod{
			"older pods": {pod("a", "p")}, "outdated pods": {pod("a", "p", with("sidecar:1", "init:2", true))},
			"current pods": {pod("a", "p", with("sidecar:2", "init:2", true))}, "refused a sidecar": {pod("a", "p", refused("set hostNetwork to false"))}, "no pods": nil,
		} {
			s := coverage.Subject{Workload: w, Asks: true, Refused: words}
			for _, p := range pods {
				s.Pods = append(s.Pods, coverage.PodOf(p))
			}
			r := coverage.Of(s, now, nil)
			todo := strings.Join(r.ToDo(), "\n")
			if r.Full() || !strings.Contains(todo, "the API server refuses new pods ("+words+"): "+says) || strings.Contains(todo, r.Restart()) {
				t.Errorf("%s, %s: full %t, to do: %s", words, name, r.Full(), todo)
			}
			s.Unrouted = true
			if r := coverage.Of(s, now, nil); r.NewPodsRefused() != "" {
				t.Errorf("%s: no request needs a sidecar there", name)
			}
		}
	}
}

// Whatever the pods: each is in one state, every pod that is not ok is spoken of,
// and the order of the pods does not matter.
func TestEveryPodIsCountedOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := rapid.Custom(func(t *rapid.T) coverage.Pod {
			return coverage.Pod{
				Present: rapid.Bool().Draw(t, "present"), Ready: rapid.Bool().Draw(t, "ready"),
				Injected: inject.Settings{
					Sidecar:      rapid.SampledFrom([]string{"sidecar:1", "sidecar:2"}).Draw(t, "sidecar"),
					Redirect:     rapid.SampledFrom([]string{"init:1", "init:2"}).Draw(t, "init"),
					IptablesMode: rapid.SampledFrom([]string{"", "auto", "nft"}).Draw(t, "mode"),
				},
				Pending:   rapid.Bool().Draw(t, "pending"),
				Beside:    rapid.SampledFrom([]string{"", "daprd", "linkerd-proxy"}).Draw(t, "beside"),
				Processed: rapid.SampledFrom([]string{"", "injected", "why", "because"}).Draw(t, "processed"),
			}
		})
		pods := rapid.SliceOfN(draw, 0, 3).Draw(t, "pods")
		connected := coverage.Connected{}
		for i := range pods {
			pods[i].Namespace, pods[i].Name = "shop", string(rune('a'+i))
			connected["shop/"+pods[i].Name] = rapid.Bool().Draw(t, "connected")
		}
		unled := rapid.Bool().Draw(t, "unled")
		of := func(pods []coverage.Pod) coverage.Report {
			return coverage.Of(coverage.Subject{Asks: true, Unrouted: unled, Pods: pods}, now, connected)
		}
		r := of(pods)
		var all []string
		for names := range maps.Values(r.Pods) {
			all = append(all, names...)
		}
		slices.Sort(all)
		if len(all) != r.Total || len(slices.Compact(all)) != len(pods) {
			t.Fatalf("%d pods in %v", len(pods), r.Pods)
		}
		if counts := r.Counts(); strings.Contains(counts, "missing") != (r.Count(coverage.Missing) > 0) {
			t.Fatalf("%s, of %v", counts, r.Pods)
		}
		if r.Full() != (len(r.ToDo()) == 0) {
			t.Fatalf("full %t, to do %q", r.Full(), r.ToDo())
		}
		slices.Reverse(pods)
		if diff := cmp.Diff(r, of(pods)); diff != "" {
			t.Fatal(diff)
		}
	})
}
