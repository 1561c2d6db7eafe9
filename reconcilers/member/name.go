package member

import crdv1 "switchyard.dev/protos/crd/v1"

// Name names a member.
type Name struct{ Kind, Namespace, Name string }

// NameOf returns the name of a member that is there.
func NameOf(m crdv1.Member) Name { return Name{m.MemberKind(), m.GetNamespace(), m.GetName()} }

// String returns the name as messages and IndexNamed have it.
func (n Name) String() string { return n.Kind + " " + n.Namespace + "/" + n.Name }
