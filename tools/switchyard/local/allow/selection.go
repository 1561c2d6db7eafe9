package allow

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tools/switchyard/sandboxes"
	"switchyard.dev/tools/switchyard/show"
	"switchyard.dev/tunnels/workstation"
	"switchyard.dev/tunnels/workstation/consent"
)

// Named are the addresses that a user names with flags and files.
type Named struct {
	allow, files []string
	values       sandboxes.Values
	trustAuthor  bool
}

// Flags adds the flags that name them; also is what a file does besides.
func (n *Named) Flags(f *pflag.FlagSet, also string) {
	f.StringArrayVar(&n.allow, "allow", nil, "open this local `address` to the sandboxes that are served: host:port, or a port of localhost; repeatable")
	f.StringArrayVarP(&n.files, "filename", "f", nil, also+"open the addresses of this machine that this `file` of a sandbox names; repeatable")
	n.values.Flags(f, "files")
	f.BoolVar(&n.trustAuthor, "trust-author", true, "open the local addresses that are named by sandboxes you changed last, as the cluster reports; =false does not")
}

// Policy returns the policy that allows these addresses, and the sandboxes of the files.
func (n *Named) Policy(s *command.Session) (policy consent.Policy, served []string, err error) {
	policy.DistrustAuthor = !n.trustAuthor
	for _, text := range n.allow {
		address, err := consent.ParseFlag(text)
		if err != nil {
			return policy, nil, exit.Usage.Errorf("--allow: %w", err)
		}
		policy.Flags = append(policy.Flags, address)
	}
	for _, file := range n.files {
		sandbox, addresses, err := sandboxes.LocalAddresses(s, file, n.values)
		if err != nil {
			return policy, nil, err
		}
		served = append(served, sandbox)
		for _, address := range addresses {
			policy.Named = append(policy.Named, consent.Named{Sandbox: sandbox, Address: address})
		}
	}
	return policy, served, nil
}

// Selection is which sandboxes are served, and which local addresses are opened for them.
type Selection struct {
	Named
	// Sandbox is the sandbox that provides the routing key of requests into the cluster; empty: none.
	Sandbox string
	machine string
	take    []string
}

// Flags adds the flags of a selection.
func (o *Selection) Flags(f *pflag.FlagSet) {
	f.StringVar(&o.Sandbox, "sandbox", "", "only this `sandbox`; HTTP requests into the cluster get its routing key")
	f.StringVar(&o.machine, "machine", "", "only sandboxes with this `id` as the annotation switchyard.dev/machine")
	f.StringArrayVar(&o.take, "take", nil, "serve this `sandbox`, and take over its tunnels from another user; repeatable")
	o.Named.Flags(f, "serve the sandbox, and ")
}

// Wanted returns the request to tunnel-api, and the addresses that flags and files allow.
func (o *Selection) Wanted(s *command.Session) (workstation.Told, consent.Policy, error) {
	told := workstation.Told{Machine: o.machine, Sandboxes: slices.Clone(o.take), Take: o.take, Others: unserved(s)}
	if o.Sandbox != "" {
		told.Sandboxes = append(told.Sandboxes, o.Sandbox)
	}
	policy, sandboxes, err := o.Policy(s)
	told.Sandboxes = append(told.Sandboxes, sandboxes...)
	slices.Sort(told.Sandboxes)
	told.Sandboxes = slices.Compact(told.Sandboxes)
	return told, policy, err
}

// unserved returns a function that writes which sandboxes are not served, whenever that changes.
func unserved(s *command.Session) func([]string, int32) {
	var last string
	return func(names []string, more int32) {
		text := strings.Join(names, ", ")
		if more > 0 {
			text += fmt.Sprintf(", and up to %d more", more)
		}
		if text != last && len(names) > 0 {
			_, _ = io.WriteString(s.Err, show.Line("note: these sandboxes are not served, although you can update them: "+text+
				". Without flags "+s.Name+" connect serves those that you changed last; select others with --sandbox, and those that are bound to a machine with --machine")+"\n")
		}
		last = text
	}
}
