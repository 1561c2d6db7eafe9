package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// routingLog is where the manager keeps what its log has reached.
const routingLog = "switchyard-routing-log"

// process is a running manager.
type process struct {
	cmd *exec.Cmd
	in  io.Closer
}

// startManager starts this program again as the manager. Each has a routing log of
// its own, which is not held against that of the one before.
func (r *rig) startManager(ctx context.Context, o orders) (*process, error) {
	err := r.client.CoreV1().ConfigMaps(operator).Delete(ctx, routingLog, metav1.DeleteOptions{})
	if client.IgnoreNotFound(err) != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, "-managing")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the manager: %w", err)
	}
	p := &process{cmd, in}
	if err := json.NewEncoder(in).Encode(o); err != nil {
		return nil, errors.Join(err, p.stop())
	}
	return p, nil
}

// stop ends the manager as a pod is ended, and waits for it.
func (p *process) stop() error { return errors.Join(p.in.Close(), p.cmd.Wait()) }
