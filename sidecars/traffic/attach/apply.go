package attach

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"switchyard.dev/eventbus/program"
	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
	"switchyard.dev/sidecars/traffic/proxy"
)

// virtual begins the names of virtual workloads in attachments: their requests go back to where they were sent to.
const virtual = "VirtualWorkload/"

// apply applies attachments, which replace all others.
func (a *Agent) apply(next *trafficv1.Attachments) {
	failed := a.recorder.Set(next.GetCaptures())
	if pem := next.GetAuthorities(); len(pem) > 0 {
		if err := a.cfg.Roots.Set(pem); err != nil { // those before stay
			failed = errors.Join(failed, fmt.Errorf("the authorities of traffic-manager cannot be read: %w", err))
		}
	}
	a.mu.Lock()
	a.state = next
	attached, taken := map[proxy.Port]bool{}, map[int32]bool{}
	for _, c := range next.GetCaptures() {
		for _, p := range c.GetPorts() {
			port := proxy.Port{Application: int32(p.GetApplication()), Listening: int32(p.GetListening()), To: p.GetTo()} //nolint:gosec // ports
			port.Returns = strings.HasPrefix(p.GetMember(), virtual)
			if until := a.until[port]; !until.IsZero() {
				a.proxy.Begin(port)
			}
			attached[port], taken[port.Listening], a.until[port] = true, true, time.Time{}
		}
	}
	for port, until := range a.until {
		switch {
		case attached[port]:
		case taken[port.Listening]: // Its connections have another destination now.
			delete(a.until, port)
		case until.IsZero():
			a.until[port] = time.Now().Add(linger)
		}
	}
	a.problem = failed
	a.mu.Unlock()
	_ = a.listen() // tick tries again
	a.save()
}

// listen serves the ports that are attached, or were so lately.
func (a *Agent) listen() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	var ports []proxy.Port
	for port, until := range a.until {
		if !until.IsZero() && time.Now().After(until) {
			delete(a.until, port)
			continue
		}
		ports = append(ports, port)
	}
	a.deaf = a.proxy.Listen(ports...)
	return a.deaf
}

// idle reports whether nothing is served.
func (a *Agent) idle() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.until) == 0
}

// wrong returns why not all that is attached is applied.
func (a *Agent) wrong() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := errors.Join(a.problem, a.deaf); err != nil {
		return err.Error()
	}
	return ""
}

// load applies the attachments that an earlier container has kept.
func (a *Agent) load() {
	content, err := os.ReadFile(a.cfg.StateFile)
	if err != nil {
		return // it is the first container of its pod
	}
	state := &trafficv1.Attachments{}
	if err := proto.Unmarshal(content, state); err != nil {
		a.cfg.Logger.Warn("the last attachments cannot be read, and are requested from traffic-manager", "file", a.cfg.StateFile, "error", err)
		return
	}
	a.apply(state)
}

// save keeps the attachments for the next container.
func (a *Agent) save() {
	a.mu.Lock()
	content, err := proto.Marshal(a.state)
	a.mu.Unlock()
	if err == nil {
		err = program.Replace(a.cfg.StateFile, content)
	}
	if err != nil {
		a.cfg.Logger.Error("the attachments cannot be kept for a container that starts again", "file", a.cfg.StateFile, "error", err)
	}
}

// Started returns nil once the container with this file has applied the attachments of its pod, or has waited for them in
// vain; else an error with the reason.
func Started(stateFile string) error {
	if _, err := os.Stat(stateFile); err != nil {
		return fmt.Errorf("nothing was attached or found missing yet: %w", err)
	}
	return nil
}
