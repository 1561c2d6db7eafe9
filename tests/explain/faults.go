package explain

import (
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"switchyard.dev/eventbus/event"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	routingv1 "switchyard.dev/protos/gen/routing/v1"
)

// Fault is a kind of thing that goes wrong.
type Fault struct {
	Name   string
	inject func(*story)
}

// None is the kind where nothing goes wrong.
var None = Fault{"nothing is wrong", (*story).healthy}

// Faults returns all kinds.
func Faults() []Fault {
	return []Fault{
		{"the key was never declared", (*story).neverDeclared},
		{"the key was withdrawn", (*story).withdrawn},
		{"the fork was never observed", (*story).neverObserved},
		{"the fork was deleted", (*story).forkGone},
		{"another sandbox holds the baseline", (*story).lost},
		{"the fork is not ready", (*story).notReady},
		{"no Service routes to the port", (*story).portNotMapped},
		{"the Service has no cluster IP", (*story).noAddress},
		{"a sidecar does not acknowledge", (*story).notAcknowledged},
		{"the sidecar of another pod does not acknowledge", (*story).otherPod},
		{"the pods have no sidecar", (*story).noSidecar},
		{"the sandbox forks something else", (*story).elsewhere},
		{"the fork was taken out of the group", (*story).takenOut},
		{"the headers carry no key", (*story).noKey},
		{"nothing is known behind the destination", (*story).unknownDestination},
		{"the table is not whole", (*story).notWhole},
	}
}

// served makes a rule, in either order of its facts, and returns their sequences.
func (s *story) served(change func(*factv1.WorkloadObserved)) (declared, observed uint64) {
	if s.random.IntN(2) == 0 {
		declared = s.declare()
		return declared, s.observe(change)
	}
	observed = s.observe(change)
	return s.declare(), observed
}

func (s *story) healthy() {
	declared, observed := s.served(nil)
	if s.random.IntN(3) == 0 { // it was away for a while
		s.observe(func(o *factv1.WorkloadObserved) { o.Ready = false })
		observed = s.observe(nil)
	}
	s.want = want{verdict: routingv1.Verdict_ROUTED, because: []uint64{declared, observed}, contains: []string{s.sandboxName}}
}

func (s *story) neverDeclared() {
	s.observe(nil)
	s.want = want{verdict: routingv1.Verdict_NEVER_DECLARED, contains: []string{s.key}}
	if s.random.IntN(2) == 0 { // declared, and changed under way
		s.declare()
		s.key = strings.ReplaceAll(s.key, "-", "%2D")
		s.want.contains = []string{s.key}
	}
}

func (s *story) withdrawn() {
	s.served(nil)
	s.before = s.last
	since := s.withdraw(event.RoutingKey(s.key), "alice")
	s.want = want{verdict: routingv1.Verdict_WITHDRAWN, because: []uint64{since}, contains: []string{s.key, "alice", "SignadotSandbox " + s.sandboxName, s.moment()}}
}

// moment is the present time, to about an hour, as recorded now.
func (s *story) moment() string { return time.Now().UTC().Format("2006-01-02T") }

func (s *story) neverObserved() {
	declared := s.declare()
	s.want = want{verdict: routingv1.Verdict_NOT_OBSERVED, because: []uint64{declared}, contains: []string{s.sandboxName + "-" + s.baseline, "kubectl-edit"}}
}

func (s *story) forkGone() {
	declared, _ := s.served(nil)
	s.before = s.last
	gone := s.withdraw(s.member(s.sandboxName), "bob")
	s.want = want{verdict: routingv1.Verdict_MEMBER_GONE, because: []uint64{declared, gone}, contains: []string{s.sandboxName + "-" + s.baseline, "bob"}}
}

func (s *story) lost() {
	older := s.other(1)
	mine := s.observe(nil)
	theirs := s.observeOf(older, s.baseline, func(o *factv1.WorkloadObserved) { o.Created = &timestamppb.Timestamp{Seconds: 500} })
	first := s.declare()
	s.before = s.last
	second := s.declare(s.sandboxName, older)
	s.want = want{
		verdict: routingv1.Verdict_LOST, because: []uint64{first, second, mine, theirs},
		contains: []string{s.sandboxName, older}, holder: older,
	}
}

func (s *story) notReady() {
	declared, _ := s.served(nil)
	s.before = s.last
	since := s.observe(func(o *factv1.WorkloadObserved) { o.Ready = false })
	if s.random.IntN(2) == 0 { // something else of it changes, and it stays not ready
		s.observe(func(o *factv1.WorkloadObserved) { o.Ready, o.Services[0].ClusterIp = false, "10.97.1.2" })
	}
	s.want = want{verdict: routingv1.Verdict_NOT_READY, because: []uint64{declared, since}, contains: []string{s.sandboxName}}
}

// onlyPort80 takes the other port out of an observation.
func onlyPort80(o *factv1.WorkloadObserved) { o.Services[0].Ports = o.Services[0].Ports[:1] }

func (s *story) portNotMapped() {
	declared, since := s.served(onlyPort80)
	if s.random.IntN(2) == 0 { // it was mapped once
		s.observe(nil)
		since = s.observe(onlyPort80)
	}
	s.want = want{verdict: routingv1.Verdict_PORT_NOT_MAPPED, because: []uint64{declared, since}, contains: []string{s.sandboxName, "no Service", "9091"}, port: ports[9090]}
}

func (s *story) noAddress() {
	declared, since := s.served(func(o *factv1.WorkloadObserved) { o.Services[0].ClusterIp = "" })
	s.want = want{verdict: routingv1.Verdict_PORT_NOT_MAPPED, because: []uint64{declared, since}, contains: []string{s.sandboxName, "no cluster IP"}}
}

func (s *story) notAcknowledged() {
	s.baseline = meshed[s.random.IntN(len(meshed))]
	s.held = s.sidecars[slices.IndexFunc(s.sidecars, func(c *pod) bool { return c.baseline == s.baseline })]
	s.held.Hold()
	declared, observed := s.served(nil)
	s.want = want{
		verdict: routingv1.Verdict_NOT_ACKNOWLEDGED, because: []uint64{declared, observed},
		contains: []string{s.held.name, s.sandboxName}, lagging: []string{s.held.name},
	}
	s.before = s.last // it is unknown which sidecars had acknowledged an older version
}

// otherPod: one sidecar lags, and the question is about another.
func (s *story) otherPod() {
	s.notAcknowledged()
	i := slices.IndexFunc(s.sidecars, func(c *pod) bool { return c.baseline == s.baseline && c != s.held })
	s.ask = &routingv1.ExplainRequest{Pod: namespace + "/" + s.sidecars[i].name}
	s.want = want{verdict: routingv1.Verdict_ROUTED, because: s.want.because, contains: []string{s.sandboxName}}
}

func (s *story) noSidecar() {
	s.baseline = bare[s.random.IntN(len(bare))]
	_, since := s.served(nil)
	if s.random.IntN(2) == 0 { // other things of it change
		s.observe(func(o *factv1.WorkloadObserved) { o.Services[0].ClusterIp = "10.97.1.3" })
	}
	s.want = want{verdict: routingv1.Verdict_NO_SIDECAR, because: []uint64{since}, contains: []string{s.baseline, "sidecar"}}
}

func (s *story) elsewhere() {
	other := meshed[(slices.Index(meshed, s.baseline)+1)%len(meshed)]
	s.observeOf(s.sandboxName, other, nil)
	declared := s.declare()
	s.want = want{verdict: routingv1.Verdict_NOT_A_MEMBER, because: []uint64{declared}, contains: []string{s.key, s.baseline}}
}

func (s *story) takenOut() {
	companion := s.other(1)
	other := meshed[(slices.Index(meshed, s.baseline)+1)%len(meshed)]
	s.observe(nil)
	s.observeOf(companion, other, nil)
	s.declare(s.sandboxName, companion)
	s.before = s.last
	since := s.declare(companion)
	s.want = want{verdict: routingv1.Verdict_NOT_A_MEMBER, because: []uint64{since}, contains: []string{s.sandboxName + "-" + s.baseline, "kubectl-edit"}}
}

func (s *story) noKey() {
	s.served(nil)
	forms := []struct {
		name, value, contains string
	}{
		{"baggage", "user=alice,session=1", "baggage carries no sd-routing-key member"},
		{"Baggage", "sd-routing-key=", "baggage names sd-routing-key without a value"},
		{"tracestate", "vendor=1", "tracestate carries no sd-routing-key member"},
		{"sd-routing-key", s.key, "a header called sd-routing-key is not read"},
		{"x-request-id", "1", "neither baggage nor tracestate"},
	}
	form := forms[s.random.IntN(len(forms))]
	s.ask = &routingv1.ExplainRequest{Headers: []*routingv1.Header{{Name: form.name, Value: form.value}}}
	s.key = ""
	s.want = want{verdict: routingv1.Verdict_NO_KEY, contains: []string{form.contains}}
}

func (s *story) unknownDestination() {
	s.served(nil)
	forms := []struct{ destination, contains string }{
		{lonely + "." + namespace + ".svc:80", lonely},
		{addressOf(lonely), lonely},
		{"10.96.9.9:80", "10.96.9.9"},
		{s.baseline + "." + namespace + ":81", "80 and 9090"},
		{"www.example.com", "www.example.com"},
		{s.baseline + ".elsewhere", s.baseline + ".elsewhere"},
	}
	form := forms[s.random.IntN(len(forms))]
	s.ask = &routingv1.ExplainRequest{Target: &routingv1.ExplainRequest_Destination{Destination: form.destination}}
	s.want = want{verdict: routingv1.Verdict_UNKNOWN_DESTINATION, contains: []string{form.contains}}
}

func (s *story) notWhole() {
	s.served(nil)
	s.cold = true
	s.want = want{verdict: routingv1.Verdict_TABLE_NOT_WHOLE, contains: []string{"no complete routing table"}}
}
