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
	"syscall"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/sidecars/devmesh"
	"switchyard.dev/sidecars/devmesh/keeper"
	"switchyard.dev/tests/background"
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
func (w *path) sidecar() {
	w.Helper()
	binary, err := envoy.Find(w.Context())
	w.Must(err)
	token := filepath.Join(w.TempDir(), "token")
	w.Must(os.WriteFile(token, []byte(w.podToken()), 0o600))
	w.Must(sidecar.Redirect(w.pod, workloadPort))
	run, err := os.MkdirTemp("/tmp", "mesh") // short: a socket's path has 108 bytes at most
	w.Must(err)
	w.Cleanup(func() {
		if err := os.RemoveAll(run); err != nil {
			w.Error(err)
		}
	})
	_, port, err := net.SplitHostPort(w.xds)
	w.Must(err)
	bundle, _ := w.tls.roots.Bundle()
	w.keeper = &keeping{w: w, log: &background.Output{}, env: []string{
		roleVariable + "=" + sidecarRole, runVariable + "=" + run, tokenVariable + "=" + token, envoyVariable + "=" + binary,
		devmesh.EnvWorkloadKind + "=Deployment", devmesh.EnvWorkloadNamespace + "=" + namespace, devmesh.EnvWorkloadName + "=" + workload,
		devmesh.EnvXDSAddress + "=" + net.JoinHostPort(w.pod.Host.String(), port),
		devmesh.EnvTrust + "=" + string(bundle),
		podnet.Isolated + "=1",
	}}
	w.keeper.start()
	w.Cleanup(w.keeper.end)
}

// keeping is the process, and its group, that keeps the pod's Envoy.
type keeping struct {
	w   *path
	env []string
	log *background.Output
	cmd *exec.Cmd
}

// start starts it in the pod.
func (k *keeping) start() {
	k.w.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = k.env
	cmd.Stdout, cmd.Stderr = io.MultiWriter(k.w.Output(), k.log), io.MultiWriter(k.w.Output(), k.log)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := k.w.pod.Do(cmd.Start); err != nil {
		k.w.Fatal(err)
	}
	k.cmd = cmd
}

// end ends it as the kubelet does.
func (k *keeping) end() {
	if err := errors.Join(k.cmd.Process.Signal(syscall.SIGTERM), k.cmd.Wait()); err != nil {
		k.w.Errorf("the sidecar: %v", err)
	}
}

// freeze stops the sidecar, keeper and Envoy, as a machine that is overloaded would;
// thaw lets it go on.
func (w *path) freeze() { w.signal(syscall.SIGSTOP) }
func (w *path) thaw()   { w.signal(syscall.SIGCONT) }

func (w *path) signal(s syscall.Signal) {
	w.Helper()
	if err := syscall.Kill(-w.keeper.cmd.Process.Pid, s); err != nil {
		w.Errorf("signal the sidecar: %v", err)
	}
}

// podToken makes the objects of the baseline's pod, whose sidecar is ready, and
// returns the token that a kubelet would mount for the sidecar.
func (w *path) podToken() string {
	w.Helper()
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
	w.Create(account)
	w.Create(set)
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))}
	pod.Spec.ServiceAccountName = account.Name
	w.Create(pod)
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: w.pod.IP.String(), ContainerStatuses: []corev1.ContainerStatus{
		{Name: "main", Ready: true}, {Name: devmesh.ContainerName, Ready: true},
	}}
	w.Must(w.Client.Status().Update(w.Context(), pod))
	return w.Token(namespace, account.Name, devmesh.TokenAudience, pod)
}
