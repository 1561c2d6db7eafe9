package allow

import (
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"switchyard.dev/routeserver/cli/exit"
	"switchyard.dev/routeserver/cli/session"
	"switchyard.dev/routeserver/cli/show"
	"switchyard.dev/routeserver/cmd/switchyard/specs"
	"switchyard.dev/tunnels/workstation"
	"switchyard.dev/tunnels/workstation/consent"
)

// Selection is which sandboxes are served, and which local addresses are opened for them.
type Selection struct {
	// Sandbox is the one whose routing key requests into the cluster get; empty: none.
	Sandbox                    string
	machine                    string
	take, allow, files, values []string
	trustAuthor                bool
}

// Flags adds the flags of a selection.
func (o *Selection) Flags(f *pflag.FlagSet) {
	f.StringVar(&o.Sandbox, "sandbox", "", "only this `sandbox`; HTTP requests into the cluster get its routing key")
	f.StringVar(&o.machine, "machine", "", "only sandboxes with this `id` as the annotation switchyard.dev/machine")
	f.StringArrayVar(&o.take, "take", nil, "serve this `sandbox`, and take its tunnels from another user that holds them; may be given again")
	f.StringArrayVar(&o.allow, "allow", nil, "open this local `address` to the sandboxes that are served: host:port, or a port of localhost; may be given again")
	f.StringArrayVarP(&o.files, "filename", "f", nil, "serve the sandbox of this `file`, and open the addresses of this machine that it names; may be given again")
	f.StringArrayVar(&o.values, "set", nil, "value of a variable of the files, `NAME=VALUE`; may be given again for others")
	f.BoolVar(&o.trustAuthor, "trust-author", true, "open addresses of this machine that sandboxes name whose last author you are, as the cluster reports; =false asks about them too")
}

// Wanted returns the request to tunnel-api, and the addresses that flags and files allow.
func (o *Selection) Wanted(s *session.Session) (workstation.Told, consent.Policy, error) {
	told := workstation.Told{Machine: o.machine, Sandboxes: slices.Clone(o.take), Take: o.take, Others: unserved(s)}
	policy := consent.Policy{DistrustAuthor: !o.trustAuthor}
	if o.Sandbox != "" {
		told.Sandboxes = append(told.Sandboxes, o.Sandbox)
	}
	for _, text := range o.allow {
		address, err := consent.ParseFlag(text)
		if err != nil {
			return told, policy, exit.Usage.Errorf("--allow: %w", err)
		}
		policy.Flags = append(policy.Flags, address)
	}
	for _, file := range o.files {
		sandbox, addresses, err := specs.LocalAddresses(s, file, o.values)
		if err != nil {
			return told, policy, err
		}
		told.Sandboxes = append(told.Sandboxes, sandbox)
		for _, address := range addresses {
			policy.Named = append(policy.Named, consent.Named{Sandbox: sandbox, Address: address})
		}
	}
	slices.Sort(told.Sandboxes)
	told.Sandboxes = slices.Compact(told.Sandboxes)
	return told, policy, nil
}

// unserved returns a function that writes which sandboxes are not served, whenever that changes.
func unserved(s *session.Session) func([]string) {
	var last []string
	return func(names []string) {
		if !slices.Equal(names, last) && len(names) > 0 {
			_, _ = io.WriteString(s.Err, show.Line("note: these sandboxes that you can update are not served: "+strings.Join(names, ", ")+
				". Without flags "+s.Name+" connect serves those that you changed last; select others with --sandbox, and those that are bound to a machine with --machine")+"\n")
		}
		last = names
	}
}
