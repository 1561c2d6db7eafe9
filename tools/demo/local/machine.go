package local

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
)

// Machine is a machine that is not in the cluster: a network namespace with a link to the
// cluster's.
type Machine struct {
	// Name is that of the network namespace.
	Name string
	// Link is the end of its link in the cluster's network, and Gateway that end's address.
	Link, Gateway string
	// Address is that of the machine.
	Address string

	peer string // the end of the link in the machine
}

// NewMachine returns a machine with a name and a number from 0 to 63, which is its own among those
// that exist at the same time. Add makes it.
func NewMachine(name string, number int) *Machine {
	return &Machine{Name: fmt.Sprint(name, number), Link: fmt.Sprint("laptop", 2*number), peer: fmt.Sprint("laptop", 2*number+1),
		Gateway: fmt.Sprint("198.18.77.", 4*number+1), Address: fmt.Sprint("198.18.77.", 4*number+2)}
}

// Add makes the machine, with routes to these networks through the cluster's. The caller removes it,
// also after an error.
func (m *Machine) Add(ctx context.Context, networks ...string) error {
	m.Remove(ctx) // of a story that was cut off
	commands := []string{
		"ip netns add " + m.Name,
		"ip link add " + m.Link + " type veth peer name " + m.peer,
		"ip link set " + m.peer + " netns " + m.Name,
		"ip address add " + m.Gateway + "/30 dev " + m.Link,
		"ip link set " + m.Link + " up",
		"ip -n " + m.Name + " address add " + m.Address + "/30 dev " + m.peer,
		"ip -n " + m.Name + " link set lo up",
		"ip -n " + m.Name + " link set " + m.peer + " up",
	}
	for _, network := range networks {
		commands = append(commands, "ip -n "+m.Name+" route add "+network+" via "+m.Gateway)
	}
	for _, command := range commands {
		if err := Line(ctx, command); err != nil {
			return err
		}
	}
	return nil
}

// Remove takes the machine away, if there is one.
func (m *Machine) Remove(ctx context.Context) {
	_ = Line(ctx, "ip link delete "+m.Link)
	_ = Line(ctx, "ip netns delete "+m.Name)
}

// Unplug cuts the machine's link, and Plug repairs it.
func (m *Machine) Unplug(ctx context.Context) error { return Line(ctx, "ip link set "+m.Link+" down") }

// Plug repairs the link that Unplug cut.
func (m *Machine) Plug(ctx context.Context) error { return Line(ctx, "ip link set "+m.Link+" up") }

// Line runs a command that is one line without quotes.
func Line(ctx context.Context, text string) error {
	words := strings.Fields(text)
	if out, err := exec.CommandContext(ctx, words[0], words[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", text, err, strings.TrimSpace(string(out)))
	}
	return nil
}
