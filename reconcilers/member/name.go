package member

import (
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
)

// ForkName names the ForkedWorkload of a target of a sandbox. The name for a Deployment has no kind, as in
// releases that forked nothing else.
func ForkName(sandbox string, ref crdv1.ObjectRef) string {
	if ref.Kind == baseline.KindDeployment {
		return crdv1.ObjectName(crdv1.MaxServiceName, sandbox, ref.Name)
	}
	return crdv1.ObjectName(crdv1.MaxServiceName, sandbox, ref.Kind, ref.Name)
}

// Name names a member.
type Name struct{ Kind, Namespace, Name string }

// NameOf returns the name of a member that is there.
func NameOf(m crdv1.Member) Name { return Name{m.MemberKind(), m.GetNamespace(), m.GetName()} }

// String returns the name as messages and IndexNamed have it.
func (n Name) String() string { return n.Kind + " " + n.Namespace + "/" + n.Name }
