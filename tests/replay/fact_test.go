package replay

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"switchyard.dev/eventbus/event"
	crdv1 "switchyard.dev/protos/crd/v1"
	factv1 "switchyard.dev/protos/gen/fact/v1"
)

// The forms of facts in stories. MEMBER is KIND/NAMESPACE/NAME, with a short word for the
// kind; SERVICE is FROM>TO@ADDRESS:PORT>PORT-OF-THE-WORKLOAD.
//
//	declare KEY MEMBER@SANDBOX… or MEMBER@SANDBOX=KIND/NAMESPACE/NAME,SERVICE… with the
//	            baseline that it names; its SERVICEs have no address: FROM>TO:PORT>PORT
//	withdraw KEY
//	observe MEMBER of=KIND/NAMESPACE/NAME via=SERVICE… created=SECONDS uid=UID unready; a SERVICE
//	            that no longer selects the baseline is shown as former=SERVICE
//	gone MEMBER
//	headers NAME…
//	floor
//	complete SEQUENCE-OF-THE-FLOOR
//	newer KEY         a fact about the routing key of a type that only later versions know

// Short words for kinds of members.
var (
	fullNames  = strings.NewReplacer("fork/", crdv1.KindForkedWorkload+"/", "external/", crdv1.KindExternalWorkload+"/", "virtual/", crdv1.KindVirtualWorkload+"/")
	shortNames = strings.NewReplacer(crdv1.KindForkedWorkload+"/", "fork/", crdv1.KindExternalWorkload+"/", "external/", crdv1.KindVirtualWorkload+"/", "virtual/")
)

// objectOf reads KIND/NAMESPACE/NAME.
func objectOf(text string) *factv1.ObjectRef {
	parts := strings.SplitN(fullNames.Replace(text)+"//", "/", 4)
	return &factv1.ObjectRef{Kind: parts[0], Namespace: parts[1], Name: parts[2]}
}

// named is what has the name of an object.
type named interface {
	GetKind() string
	GetNamespace() string
	GetName() string
}

func objectText(o named) string {
	return shortNames.Replace(o.GetKind() + "/" + o.GetNamespace() + "/" + o.GetName())
}

// parseFact reads one line.
func parseFact(words []string) (proto.Message, error) {
	rest := append(words[1:], "")
	switch words[0] {
	case "declare":
		d := &factv1.RoutingDeclared{RoutingKey: rest[0]}
		for _, m := range words[min(2, len(words)):] {
			member, sandbox, _ := strings.Cut(m, "@")
			sandbox, told, tells := strings.Cut(sandbox, "=")
			o := objectOf(member)
			says := &factv1.Member{Kind: o.Kind, Namespace: o.Namespace, Name: o.Name, Sandbox: sandbox}
			if tells {
				stands := strings.Split(told, ",")
				says.Baseline = objectOf(stands[0])
				for _, s := range stands[1:] {
					pair := serviceOf(toldForm.FindStringSubmatch(s))
					if pair == nil {
						return nil, fmt.Errorf("%q is no Service", s)
					}
					says.Services = append(says.Services, pair)
				}
			}
			d.Members = append(d.Members, says)
		}
		return d, nil
	case "withdraw":
		return &factv1.RoutingWithdrawn{RoutingKey: rest[0]}, nil
	case "observe":
		return parseObserved(words[1:])
	case "gone":
		return &factv1.WorkloadWithdrawn{Workload: objectOf(rest[0])}, nil
	case "headers":
		return &factv1.KeyHeadersDeclared{Names: words[1:]}, nil
	case "floor":
		return &factv1.Floor{Reason: "count"}, nil
	case "complete":
		floor, _ := strconv.ParseUint(rest[0], 10, 64)
		return &factv1.Complete{Reason: "first", Floor: floor}, nil
	}
	return nil, fmt.Errorf("%q is no fact", words)
}

var (
	serviceForm = regexp.MustCompile(`^([^>]*)>([^@]*)@(.*):(\d+)>(\d+)$`)
	toldForm    = regexp.MustCompile(`^([^>]*)>([^:]*)():(\d+)>(\d+)$`)
)

// serviceOf returns what a form found: FROM, TO, ADDRESS, PORT, PORT; nil where it found nothing.
func serviceOf(found []string) *factv1.ServicePair {
	if found == nil {
		return nil
	}
	port, _ := strconv.ParseUint(found[4], 10, 16)
	leadsTo, _ := strconv.ParseUint(found[5], 10, 16)
	return &factv1.ServicePair{
		From: found[1], To: found[2], ClusterIp: found[3], Ports: []*factv1.PortPair{{Port: uint32(port), WorkloadPort: uint32(leadsTo)}},
	}
}

func parseObserved(words []string) (proto.Message, error) {
	o := &factv1.WorkloadObserved{Workload: objectOf(words[0]), Ready: true, DevMeshPresent: true, Created: &timestamppb.Timestamp{Seconds: 1}}
	o.Workload.Uid = "uid-" + o.Workload.Name
	for _, word := range words[1:] {
		name, value, _ := strings.Cut(word, "=")
		service := serviceForm.FindStringSubmatch(value)
		switch {
		case name == "of":
			o.Baseline = objectOf(value)
		case name == "via" && service != nil:
			o.Services = append(o.Services, serviceOf(service))
		case name == "created":
			o.Created.Seconds, _ = strconv.ParseInt(value, 10, 64)
		case name == "uid":
			o.Workload.Uid = value
		case word == "unready":
			o.Ready = false
		default:
			return nil, fmt.Errorf("%q says nothing of what is observed", word)
		}
	}
	return o, nil
}

// factText writes a fact as parseFact reads it, without times of creation and UIDs.
func factText(f event.Fact) string {
	switch d := f.Data.(type) {
	case *factv1.RoutingDeclared:
		out := "declare " + d.GetRoutingKey()
		for _, m := range d.GetMembers() {
			out += " " + objectText(m) + "@" + m.GetSandbox()
			if m.GetBaseline() != nil {
				out += "=" + objectText(m.GetBaseline())
			}
			for _, s := range m.GetServices() {
				for _, p := range s.GetPorts() {
					out += fmt.Sprintf(",%s>%s:%d>%d", s.GetFrom(), s.GetTo(), p.GetPort(), p.GetWorkloadPort())
				}
			}
		}
		return out
	case *factv1.RoutingWithdrawn:
		return "withdraw " + d.GetRoutingKey()
	case *factv1.WorkloadObserved:
		out := "observe " + objectText(d.GetWorkload()) + " of=" + objectText(d.GetBaseline())
		for _, s := range d.GetServices() {
			for _, p := range s.GetPorts() {
				out += fmt.Sprintf(" %s=%s>%s@%s:%d>%d", map[bool]string{false: "via", true: "former"}[s.GetFormer()], s.GetFrom(), s.GetTo(), s.GetClusterIp(), p.GetPort(), p.GetWorkloadPort())
			}
		}
		return out + map[bool]string{false: " unready"}[d.GetReady()]
	case *factv1.WorkloadWithdrawn:
		return "gone " + objectText(d.GetWorkload())
	case *factv1.KeyHeadersDeclared:
		return "headers " + strings.Join(d.GetNames(), " ")
	case *factv1.Floor:
		return "floor"
	case *factv1.Complete:
		return strings.TrimSuffix(fmt.Sprintf("complete %d", d.GetFloor()), " 0")
	}
	return "newer " + strings.TrimPrefix(string(f.Key), "key/")
}
