package sandboxes

import (
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/workflows/spec"
	"switchyard.dev/workflows/specfile"
)

// LocalAddresses reads a sandbox's file in the published format, and returns the sandbox's name and
// the local addresses that it names.
func LocalAddresses(s *command.Session, file string, values Values) (sandbox string, addresses []string, err error) {
	var asked spec.Sandbox
	in := input{path: file, what: specfile.Sandbox, Values: values}
	if _, err := in.read(s, &asked); err != nil {
		return "", nil, err
	}
	for _, l := range asked.Spec.Local {
		for _, m := range l.Mappings {
			addresses = append(addresses, m.ToLocal)
		}
	}
	if asked.Spec.Routing != nil {
		for _, f := range asked.Spec.Routing.Forwards {
			addresses = append(addresses, f.ToLocal)
		}
	}
	return asked.Name, addresses, nil
}
