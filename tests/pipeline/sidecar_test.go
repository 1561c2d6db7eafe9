package pipeline

import (
	"context"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/routeserver/table"
	"switchyard.dev/sidecars/devmesh"
	"switchyard.dev/sidecars/devmesh/keeper"
	"switchyard.dev/tests/apiserver"
	"switchyard.dev/tests/background"
	"switchyard.dev/tests/process"
	"switchyard.dev/tests/program"
	"switchyard.dev/tests/sidecar"
	"switchyard.dev/tools/envoy"
)

// roleSidecar is the process of the sidecar's program: one of its own can be put into the
// pod's network namespace.
const roleSidecar = "sidecar"

// podName is the name of the baseline's pod.
const podName = workload + "-1-a"

// keepSidecar is the sidecar's program: the same as in the sidecar's image, but for what it
// logs, and how long it lets connections end.
func keepSidecar() error {
	config, err := keeper.FromEnvironment(os.Getenv)
	if err != nil {
		return err
	}
	config.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
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
	as := sidecar.Pod{
		Net: w.pod, Workload: table.Workload{Kind: "Deployment", Namespace: namespace, Name: workload}, Name: podName,
		XDS: port, Dir: run, Token: token, LogLevel: "warn",
	}
	w.keeper = &keeping{
		w: w, log: &background.Output{}, run: run,
		env: append(as.Environment(), devmesh.EnvEnvoy+"="+binary, devmesh.EnvTrust+"="+string(bundle)),
	}
	w.keeper.start()
	w.Cleanup(w.keeper.end)
}

// keeping is the process, and its group, that keeps the pod's Envoy.
type keeping struct {
	w       *path
	env     []string
	run     string // the sidecar's volume
	log     *background.Output
	process *program.Program
}

// start starts it in the pod.
func (k *keeping) start() {
	k.w.Helper()
	cmd, err := process.Command(roleSidecar, k.env...)
	k.w.Must(err)
	cmd.Stdout, cmd.Stderr = io.MultiWriter(k.w.Output(), k.log), io.MultiWriter(k.w.Output(), k.log)
	k.process, err = program.Start("", "the sidecar", cmd, k.w.pod.Do)
	k.w.Must(err)
}

// end ends it as the kubelet does.
func (k *keeping) end() {
	if err := k.process.Terminate(patience); err != nil {
		k.w.Errorf("the sidecar: %v", err)
	}
}

// freeze stops the sidecar, keeper and Envoy, as a machine that is overloaded would;
// thaw lets it go on.
func (w *path) freeze() { w.signal(syscall.SIGSTOP) }
func (w *path) thaw()   { w.signal(syscall.SIGCONT) }

func (w *path) signal(s syscall.Signal) {
	w.Helper()
	if err := syscall.Kill(-w.keeper.process.PID(), s); err != nil {
		w.Errorf("signal the sidecar: %v", err)
	}
}

// podToken makes the objects of the baseline's pod, whose sidecar is ready, and
// returns the token that a kubelet would mount for the sidecar.
func (w *path) podToken() string {
	w.Helper()
	account := apiserver.Account(namespace, "default")
	w.Create(account)
	set, err := apiserver.ReplicaSet(w.Context(), w.Kube, namespace, "Deployment", workload)
	w.Must(err)
	set.Spec.Template.Spec.InitContainers = []corev1.Container{{
		Name: devmesh.ContainerName, Image: "sidecar:1", RestartPolicy: new(corev1.ContainerRestartPolicyAlways),
		Env: []corev1.EnvVar{{Name: devmesh.EnvForms, Value: devmesh.FormsRecorded}},
	}}
	pod, err := apiserver.Pod(w.Context(), w.Kube, set, podName, account.Name)
	w.Must(err)
	pod.Labels[crdv1.LabelInjected] = "true"
	w.Must(w.Client.Update(w.Context(), pod))
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: w.pod.IP.String(), ContainerStatuses: []corev1.ContainerStatus{
		{Name: "main", Ready: true}, {Name: devmesh.ContainerName, Ready: true},
	}}
	w.Must(w.Client.Status().Update(w.Context(), pod))
	return w.Token(namespace, account.Name, devmesh.TokenAudience, pod)
}
