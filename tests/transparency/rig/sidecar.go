package rig

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"switchyard.dev/sidecars/devmesh"
	"switchyard.dev/tests/program"
)

const (
	podName  = "apps-0"
	podToken = "the token of apps-0"
)

func (r *Rig) sidecarDir() string { return filepath.Join(r.dir, "sidecar") }
func (r *Rig) sidecarLog() string { return filepath.Join(r.dir, "sidecar.log") }

// startSidecar starts the sidecar's program as in a pod, and waits until it is ready
// and has the routes.
func (r *Rig) startSidecar(ctx context.Context) error {
	token := filepath.Join(r.dir, "token")
	if err := errors.Join(os.WriteFile(token, []byte(podToken), 0o600), os.Mkdir(r.sidecarDir(), 0o700)); err != nil {
		return err
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), os.Getenv(programVariable)) //nolint:gosec // built by Isolate
	cmd.Env = append(os.Environ(),
		devmesh.EnvWorkloadKind+"="+workload.Kind, devmesh.EnvWorkloadNamespace+"="+workload.Namespace, devmesh.EnvWorkloadName+"="+workload.Name,
		devmesh.EnvXDSAddress+"="+net.JoinHostPort(r.pod.Host.String(), xdsPort),
		devmesh.EnvPodNamespace+"="+workload.Namespace, devmesh.EnvPodName+"="+podName, devmesh.EnvPodIP+"="+r.pod.IP.String(),
		devmesh.EnvRunPath+"="+r.sidecarDir(), devmesh.EnvTokenFile+"="+token,
	)
	p, err := program.Start(r.dir, "sidecar", cmd, r.pod.Do)
	if err != nil {
		return err
	}
	r.programs = append(r.programs, p)
	url := fmt.Sprintf("http://%s:%d%s", r.pod.IP, devmesh.ReadinessPort, devmesh.ReadinessPath)
	if err := until(ctx, "the sidecar is ready", func() error { return errors.Join(p.Running(), healthy(ctx, url)) }); err != nil {
		log, _ := r.SidecarLog()
		return fmt.Errorf("%w\n%s", err, log)
	}
	return r.acknowledged(ctx)
}

// healthy tells whether an address answers 200.
func healthy(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	answer, err := (&http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return errors.New(answer.Status)
	}
	return nil
}
