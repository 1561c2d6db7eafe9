package pipeline

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/sidecars/devmesh"
	"switchyard.dev/sidecars/devmesh/keeper"
	"switchyard.dev/tests/podnet"
	"switchyard.dev/tests/sidecar"
	"switchyard.dev/tools/envoy"
)

// roleVariable, set to sidecarRole, makes the test binary the sidecar's
// program: a process of its own can be put into the pod's network namespace.
const (
	roleVariable  = "PIPELINE_ROLE"
	sidecarRole   = "sidecar"
	runVariable   = "PIPELINE_RUN"
	tokenVariable = "PIPELINE_TOKEN"
	envoyVariable = "PIPELINE_ENVOY"
)

// keepSidecar is the sidecar's program: the same as in the sidecar's image, but
// for the places of its files.
func keepSidecar() error {
	config, err := keeper.FromEnvironment(os.Getenv)
	if err != nil {
		return err
	}
	config.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	config.Proxy.RunPath = os.Getenv(runVariable)
	config.TokenFile = os.Getenv(tokenVariable)
	config.Envoy = os.Getenv(envoyVariable)
	config.Workers = 1
	config.DrainMin, config.DrainMax = time.Millisecond, time.Second
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	return keeper.Run(ctx, config)
}

// sidecar gives the pod its objects, its token, its redirection and its proxy.
func (w *world) sidecar() {
	w.t.Helper()
	binary, err := envoy.Find(w.ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	token := filepath.Join(w.t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(w.podToken()), 0o600); err != nil {
		w.t.Fatal(err)
	}
	if err := sidecar.Redirect(w.pod, workloadPort); err != nil {
		w.t.Fatal(err)
	}
	run, err := os.MkdirTemp("/tmp", "mesh") // short: a socket's path has 108 bytes at most
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if err := os.RemoveAll(run); err != nil {
			w.t.Error(err)
		}
	})
	_, port, err := net.SplitHostPort(w.xds)
	if err != nil {
		w.t.Fatal(err)
	}
	bundle, _ := w.tls.roots.Bundle()
	w.keeper = &keeping{w: w, log: &output{}, env: []string{
		roleVariable + "=" + sidecarRole, runVariable + "=" + run, tokenVariable + "=" + token, envoyVariable + "=" + binary,
		devmesh.EnvWorkloadKind + "=Deployment", devmesh.EnvWorkloadNamespace + "=" + namespace, devmesh.EnvWorkloadName + "=" + workload,
		devmesh.EnvXDSAddress + "=" + net.JoinHostPort(w.pod.Host.String(), port),
		devmesh.EnvTrust + "=" + string(bundle),
		podnet.Isolated + "=1",
	}}
	w.keeper.start()
	w.t.Cleanup(w.keeper.end)
}

// keeping is the process, and its group, that keeps the pod's Envoy.
type keeping struct {
	w   *world
	env []string
	log *output
	cmd *exec.Cmd
}

// start starts it in the pod.
func (k *keeping) start() {
	k.w.t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = k.env
	cmd.Stdout, cmd.Stderr = io.MultiWriter(k.w.t.Output(), k.log), io.MultiWriter(k.w.t.Output(), k.log)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := k.w.pod.Do(cmd.Start); err != nil {
		k.w.t.Fatal(err)
	}
	k.cmd = cmd
}

// end ends it as the kubelet does.
func (k *keeping) end() {
	if err := errors.Join(k.cmd.Process.Signal(syscall.SIGTERM), k.cmd.Wait()); err != nil {
		k.w.t.Errorf("the sidecar: %v", err)
	}
}

// output keeps what is logged.
type output struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

// says reports whether all words have been logged.
func (o *output) says(words ...string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(o.text.String(), w) })
}

// freeze stops the sidecar, keeper and Envoy, as a machine that is overloaded would;
// thaw lets it go on.
func (w *world) freeze() { w.signal(syscall.SIGSTOP) }
func (w *world) thaw()   { w.signal(syscall.SIGCONT) }

func (w *world) signal(s syscall.Signal) {
	w.t.Helper()
	if err := syscall.Kill(-w.keeper.cmd.Process.Pid, s); err != nil {
		w.t.Errorf("signal the sidecar: %v", err)
	}
}

// podToken makes the objects of the baseline's pod, whose sidecar is ready, and
// returns the token that a kubelet would mount for the sidecar.
func (w *world) podToken() string {
	w.t.Helper()
	deployment := &appsv1.Deployment{}
	w.get(deployment, workload)
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{
		Name: workload + "-1", Namespace: namespace,
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(deployment, appsv1.SchemeGroupVersion.WithKind("Deployment"))},
	}}
	set.Spec = appsv1.ReplicaSetSpec{Selector: deployment.Spec.Selector, Template: deployment.Spec.Template}
	pod := &corev1.Pod{Spec: deployment.Spec.Template.Spec}
	pod.Namespace, pod.Name, pod.Labels = namespace, workload+"-1-a", maps.Clone(deployment.Spec.Template.Labels)
	pod.Labels[crdv1.LabelInjected] = "true"
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: namespace}}
	if err := w.client.Create(w.ctx, account); err != nil {
		w.t.Fatal(err)
	}
	if err := w.client.Create(w.ctx, set); err != nil {
		w.t.Fatal(err)
	}
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))}
	pod.Spec.ServiceAccountName = account.Name
	if err := w.client.Create(w.ctx, pod); err != nil {
		w.t.Fatal(err)
	}
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: w.pod.IP.String(), ContainerStatuses: []corev1.ContainerStatus{
		{Name: "main", Ready: true}, {Name: devmesh.ContainerName, Ready: true},
	}}
	if err := w.client.Status().Update(w.ctx, pod); err != nil {
		w.t.Fatal(err)
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		Audiences:      []string{devmesh.TokenAudience},
		BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID},
	}}
	if err := w.client.SubResource("token").Create(w.ctx, account, request); err != nil {
		w.t.Fatal(err)
	}
	return request.Status.Token
}
