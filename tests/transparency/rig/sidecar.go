package rig

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"switchyard.dev/tests/sidecar"
)

const (
	podName  = "apps-0"
	podToken = "the token of apps-0"
)

func (r *Rig) sidecarDir() string { return filepath.Join(r.dir, "sidecar") }

// startSidecar starts the sidecar's program as in a pod, and waits until it is ready
// and has the routes.
func (r *Rig) startSidecar(ctx context.Context) error {
	token := filepath.Join(r.dir, "token")
	if err := errors.Join(os.WriteFile(token, []byte(podToken), 0o600), os.Mkdir(r.sidecarDir(), 0o700)); err != nil {
		return err
	}
	pod := sidecar.Pod{Net: r.pod, Workload: workload, Name: podName, XDS: xdsPort, Dir: r.sidecarDir(), Token: token, LogLevel: "info"}
	if err := r.run(ctx, r.dir, "sidecar", pod.Command(), r.pod.Do, func() error { return pod.Ready(ctx) }); err != nil {
		return err
	}
	return r.acknowledged(ctx)
}
