package manager_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
	"switchyard.dev/sidecars/traffic/elide"
	"switchyard.dev/sidecars/traffic/manager"
	"switchyard.dev/sidecars/traffic/record"
)

func TestExchangesAreStoredOnceAndRead(t *testing.T) {
	s := newSite(t)
	pod := s.fork("cart")
	c := s.container(pod, "i1")
	capture := s.capture("cap", func(c *crdv1.TrafficCapture) {
		c.Spec.Elide = &crdv1.CaptureElision{RequestHeaders: []crdv1.HeaderName{"X-Key"}, JSONPaths: []crdv1.JSONPath{"$.a"}}
		c.Spec.SamplePercent = 50
	}, pod)
	got := c.applies(1)[0]
	if got.GetUid() != string(capture.UID) || got.GetBodyBytes() != 65536 || got.GetSample() != 0.5 || got.GetRoutingKey() != "key" ||
		!slices.Equal(got.GetRequestHeadersElided(), []string{"x-always", "X-Key"}) || !slices.Equal(got.GetJsonPathsElided(), []string{"$.a"}) ||
		len(got.GetPorts()) != 1 || got.GetPorts()[0].GetListening() != 25800 {
		t.Errorf("the pod gets %v", got)
	}
	if refused := c.hands(&trafficv1.CaptureCounts{CaptureUid: got.GetUid(), Seen: 5, SampledOut: 1, Lost: map[string]uint64{"budget": 1}}, c.exchange(capture, 1, 10), c.exchange(capture, 2, 10)); refused != nil {
		t.Errorf("refused are %q", refused)
	}
	// The acknowledgement was lost.
	if refused := c.hands(nil, c.exchange(capture, 2, 10), c.exchange(capture, 3, 10)); refused != nil {
		t.Errorf("refused are %q", refused)
	}
	all, gap, next := s.read("cap", nil)
	if len(all) != 3 || all[2].GetRequest().GetTarget() != "/3" || all[0].GetPod() != pod.Name || gap.GetEvicted() != 0 || next.GetOffset() != 3 || next.GetReplica() != "replica-0" {
		t.Errorf("read are %v, %v, %v", all, gap, next)
	}
	if all, _, _ := s.read("cap", &trafficv1.Cursor{Replica: next.GetReplica(), Epoch: next.GetEpoch(), Offset: 2}); len(all) != 1 || all[0].GetNumber() != 3 {
		t.Errorf("after two, read are %v", all)
	}
	if all, gap, _ := s.read("cap", &trafficv1.Cursor{Replica: next.GetReplica(), Epoch: "another", Offset: 2}); len(all) != 3 || gap.GetReason() != "restart" {
		t.Errorf("of another epoch, read are %v, %v", all, gap)
	}
	var counts *trafficv1.Counts
	s.Eventually("the pod has applied the capture", func() error {
		if counts = s.counts("cap"); len(counts.GetPods()) != 1 || !counts.GetPods()[0].GetApplied() || counts.GetPods()[0].GetPodUid() != string(pod.UID) {
			return fmt.Errorf("%v", counts)
		}
		return nil
	})
	if counts.GetSeen() != 5 || counts.GetStored() != 3 || !counts.GetRestricts() || counts.GetLost()["budget"] != 1 || counts.GetSampledOut() != 1 {
		t.Errorf("the counts are %v", counts)
	}
	response, err := http.Get("http://" + s.main.HealthAddress() + "/metrics")
	s.Must(err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	s.Must(err)
	for _, line := range []string{`switchyard_traffic_exchanges_total{result="stored"} 3`, `{result="repeated"} 1`, "switchyard_traffic_attached_pods 1"} {
		if !strings.Contains(string(text), line) {
			t.Errorf("no %q in the metrics", line)
		}
	}
}

// A path that the API server accepts and that is not supported is a problem of its capture, which records nothing, and of no other one.
func TestACaptureThatCannotBeAppliedKeepsNoOtherFromIt(t *testing.T) {
	s := newSite(t)
	pod := s.fork("cart")
	c := s.container(pod, "i1")
	s.capture("good", nil, pod)
	bad := s.capture("bad", func(c *crdv1.TrafficCapture) {
		c.Spec.Elide = &crdv1.CaptureElision{JSONPaths: []crdv1.JSONPath{"$.a", "$.[?(@.b)]"}}
		c.Spec.Traces = "0123456789abcdef"
	}, pod)
	for _, got := range c.applies(2) {
		if _, err := elide.New(got); err != nil || len(got.GetPorts()) != 1 {
			t.Errorf("the pod gets %v: %v", got, err)
		}
		if records := record.Selects(got, "0123456789abcdef"); records == (got.GetUid() == string(bad.UID)) {
			t.Errorf("%s records: %v", got.GetName(), records)
		}
	}
	for name, want := range map[string]string{"good": "", "bad": "is not supported"} {
		s.Eventually("the state of the pod is known", func() error {
			p := s.counts(name).GetPods()
			if len(p) != 1 || p[0].GetApplied() != (want == "") || !strings.Contains(p[0].GetProblem(), want) || want == "" && p[0].GetProblem() != "" {
				return fmt.Errorf("of %s it is %v", name, p)
			}
			return nil
		})
	}
}

func TestPodsGetAndDeliverTheirOwnCapturesOnly(t *testing.T) {
	s := newSite(t)
	pod, other := s.fork("cart"), s.fork("mail")
	own, foreign := s.capture("own", nil, pod), s.capture("foreign", nil, other)
	c := s.container(pod, "i1")
	if got := c.applies(1); got[0].GetUid() != string(own.UID) {
		t.Errorf("the pod gets %v", got)
	}
	wrong := c.exchange(own, 0, 1)
	if refused := c.hands(nil, c.exchange(foreign, 1, 1), wrong, c.exchange(own, 1, 1)); !slices.Equal(refused, []string{c.exchange(foreign, 1, 1).Id, wrong.Id}) {
		t.Errorf("refused are %q", refused)
	}
	s.attach(own)
	c.applies(0)
	// Exchanges that it has recorded before are taken.
	if refused := c.hands(nil, c.exchange(own, 2, 1)); refused != nil {
		t.Errorf("refused after the end are %q", refused)
	}
	if counts := s.counts("foreign"); counts.GetStored() != 0 {
		t.Errorf("the counts of the other are %v", counts)
	}
}

func TestOnlyPodsOfForksAreServed(t *testing.T) {
	s := newSite(t)
	lone := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "lone"}, Spec: corev1.PodSpec{ServiceAccountName: "default", Containers: []corev1.Container{{Name: "main", Image: "main"}}}}
	s.Create(lone)
	baseline, fork := s.deployed("baseline"), s.fork("cart")
	s.capture("own", nil, fork, lone, baseline)
	s.container(fork, "i1") // from here on its ForkedWorkload is known
	for _, one := range []struct {
		name, token string
		code        codes.Code
	}{
		{"no token", "", codes.Unauthenticated},
		{"junk", "junk", codes.Unauthenticated},
		{"another audience", s.Token(s.namespace, "default", "other", fork), codes.Unauthenticated},
		{"no pod", s.Token(s.namespace, "default", manager.Audience, nil), codes.PermissionDenied},
		{"a pod without a workload", s.Token(s.namespace, "default", manager.Audience, lone), codes.PermissionDenied},
		{"a baseline", s.Token(s.namespace, "default", manager.Audience, baseline), codes.PermissionDenied},
	} {
		client := trafficv1.NewSidecarsClient(s.conn)
		attach, err := client.Attach(s.shows(one.token))
		s.Must(err)
		_, err = attach.Recv()
		s.fails(one.name+" attaches", err, one.code)
		deliver, err := client.Deliver(s.shows(one.token))
		s.Must(err)
		_, err = deliver.Recv()
		s.fails(one.name+" delivers", err, one.code)
	}
}

func TestReadersShowATicketOrAreNamed(t *testing.T) {
	s := newSite(t)
	s.capture("cap", nil)
	client := trafficv1.NewReadersClient(s.conn)
	counts := func(name string) error {
		_, err := client.Counts(s.ticket("cap"), &trafficv1.CountsRequest{CaptureNamespace: s.namespace, Capture: name})
		return err
	}
	s.Eventually("the capture is known", func() error { return counts("cap") })
	s.fails("a ticket for another capture", counts("other"), codes.PermissionDenied)
	for _, one := range []struct {
		name, token, capture string
		code                 codes.Code
	}{
		{"the named account", s.Token(s.namespace, "collector", manager.Audience, nil), "cap", codes.OK},
		{"the named account, of no capture", s.Token(s.namespace, "collector", manager.Audience, nil), "none", codes.NotFound},
		{"another account", s.Token(s.namespace, "default", manager.Audience, nil), "cap", codes.PermissionDenied},
		{"the account with another audience", s.Token(s.namespace, "collector", "other", nil), "cap", codes.Unauthenticated},
		{"junk", "junk", "cap", codes.Unauthenticated},
	} {
		_, err := client.Counts(s.shows(one.token), &trafficv1.CountsRequest{CaptureNamespace: s.namespace, Capture: one.capture})
		s.fails(one.name, err, one.code)
		stream, err := client.Read(s.shows(one.token), &trafficv1.ReadRequest{CaptureNamespace: s.namespace, Capture: one.capture})
		s.Must(err)
		_, err = stream.Recv()
		s.fails(one.name+" reads", err, one.code)
	}
}

// A container is killed with exchanges in flight; the next one counts from 1 again.
func TestWhatADeadContainerHadInFlightIsLost(t *testing.T) {
	s := newSite(t)
	pod := s.fork("cart")
	capture := s.capture("cap", nil, pod)
	c := s.container(pod, "i1")
	c.applies(1)
	c.hands(&trafficv1.CaptureCounts{CaptureUid: string(capture.UID), Seen: 10}, c.exchange(capture, 1, 1), c.exchange(capture, 2, 1))
	s.Eventually("the others are pending", func() error {
		if counts := s.counts("cap"); counts.GetPending() != 8 || counts.GetStored() != 2 {
			return fmt.Errorf("%v", counts)
		}
		return nil
	})
	c.end()
	s.Eventually("the others are lost", func() error {
		if counts := s.counts("cap"); counts.GetPending() != 0 || counts.GetLost()["restart"] != 8 {
			return fmt.Errorf("%v", counts)
		}
		return nil
	})
	next := s.container(pod, "i2")
	next.applies(1)
	next.hands(&trafficv1.CaptureCounts{CaptureUid: string(capture.UID), Seen: 1, Delivered: 0}, next.exchange(capture, 1, 1))
	if counts := s.counts("cap"); counts.GetSeen() != 11 || counts.GetStored() != 3 || counts.GetLost()["restart"] != 8 || len(counts.GetPods()) != 2 {
		t.Errorf("after the restart: %v", counts)
	}
}

// The store is copied while the replica runs: the copy is what a kill leaves.
func TestAReplicaThatIsKilledKeepsItsExchanges(t *testing.T) {
	s := newSite(t)
	pod := s.fork("cart")
	capture := s.capture("cap", nil, pod)
	c := s.container(pod, "i1")
	c.applies(1)
	c.hands(&trafficv1.CaptureCounts{CaptureUid: string(capture.UID), Seen: 3}, c.exchange(capture, 1, 100), c.exchange(capture, 2, 100))
	_, _, cursor := s.read("cap", nil)
	left := filepath.Join(t.TempDir(), "left")
	s.Must(os.CopyFS(left, os.DirFS(s.config.Store)))
	s.stop()
	s.config.Store = left
	s.start()
	again := s.container(pod, "i1")
	again.applies(1)
	again.hands(&trafficv1.CaptureCounts{CaptureUid: string(capture.UID), Seen: 3}, again.exchange(capture, 2, 100), again.exchange(capture, 3, 100))
	if all, gap, _ := s.read("cap", cursor); len(all) != 1 || all[0].GetNumber() != 3 || gap.GetReason() != "" {
		t.Errorf("after the restart, read are %v, %v", all, gap)
	}
	if counts := s.counts("cap"); counts.GetSeen() != 3 || counts.GetStored() != 3 {
		t.Errorf("after the restart: %v", counts)
	}
	// A replica with an empty disk: what the former one had acknowledged is lost.
	s.stop()
	s.config.Store = filepath.Join(t.TempDir(), "empty")
	s.start()
	last := s.container(pod, "i1")
	last.applies(1)
	last.hands(&trafficv1.CaptureCounts{CaptureUid: string(capture.UID), Seen: 4, Delivered: 3}, last.exchange(capture, 4, 100))
	last.hands(&trafficv1.CaptureCounts{CaptureUid: string(capture.UID), Seen: 4, Delivered: 4}, last.exchange(capture, 4, 100))
	if counts := s.counts("cap"); counts.GetSeen() != 4 || counts.GetStored() != 1 || counts.GetLost()["restart"] != 3 {
		t.Errorf("with an empty disk: %v", counts)
	}
	if all, gap, _ := s.read("cap", cursor); len(all) != 1 || gap.GetReason() != "restart" {
		t.Errorf("with an empty disk, read are %v, %v", all, gap)
	}
}

func TestEvictedExchangesAreCounted(t *testing.T) {
	s := newSite(t)
	pod := s.fork("cart")
	capture := s.capture("cap", nil, pod)
	c := s.container(pod, "i1")
	c.applies(1)
	const all = 60
	for n := uint64(1); n <= all; n++ {
		c.hands(&trafficv1.CaptureCounts{CaptureUid: string(capture.UID), Seen: n}, c.exchange(capture, n, 512<<10))
	}
	counts := s.counts("cap")
	got, gap, _ := s.read("cap", nil)
	if counts.GetEvicted() == 0 || counts.GetSeen() != all || counts.GetStored()+counts.GetEvicted() != all || uint64(len(got)) != counts.GetStored() || gap.GetEvicted() != counts.GetEvicted() {
		t.Errorf("%d are read, missed %v, counts %v", len(got), gap, counts)
	}
	for i, e := range got {
		if e.GetNumber() != counts.GetEvicted()+uint64(i)+1 { //nolint:gosec // small
			t.Fatalf("exchange %d is number %d", i, e.GetNumber())
		}
	}
}

// A reader follows until the capture ends, and its counts remain.
func TestFollowersEndWithTheCapture(t *testing.T) {
	s := newSite(t)
	pod := s.fork("cart")
	c := s.container(pod, "i1")
	capture := s.capture("cap", nil) // attached to no pod yet
	s.Eventually("the capture is known", func() error {
		_, err := trafficv1.NewReadersClient(s.conn).Counts(s.ticket("cap"), &trafficv1.CountsRequest{CaptureNamespace: s.namespace, Capture: "cap"})
		return err
	})
	stream, err := trafficv1.NewReadersClient(s.conn).Read(s.ticket("cap"), &trafficv1.ReadRequest{CaptureNamespace: s.namespace, Capture: "cap", Follow: true})
	s.Must(err)
	var numbers []uint64
	for current := 0; ; {
		e, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		s.Must(err)
		if e.GetExchange() != nil {
			numbers = append(numbers, e.GetExchange().GetNumber())
		}
		if !e.GetCurrent() {
			continue
		}
		switch current++; current {
		case 1:
			s.attach(capture, pod)
			c.applies(1)
			c.hands(nil, c.exchange(capture, 1, 1))
		case 2:
			s.Remove(capture)
			c.applies(0)
			c.hands(&trafficv1.CaptureCounts{CaptureUid: string(capture.UID), Seen: 2}, c.exchange(capture, 2, 1))
		}
	}
	if !slices.Equal(numbers, []uint64{1, 2}) {
		t.Errorf("the follower got %d", numbers)
	}
	if counts := s.counts("cap"); counts.GetSeen() != 2 || counts.GetStored() != 2 {
		t.Errorf("after the end: %v", counts)
	}
	// Another capture of the name begins at zero.
	s.capture("cap", nil, pod)
	c.applies(1)
	if counts := s.counts("cap"); counts.GetSeen() != 0 {
		t.Errorf("the next capture of the name has %v", counts)
	}
}

func TestANewerStreamOfAPodEndsTheOlder(t *testing.T) {
	s := newSite(t)
	c := s.container(s.fork("cart"), "i1")
	old := c.attach
	c.applies(0)
	_, err := old.Recv()
	s.fails("the older stream", err, codes.Aborted)
}

// A pod of traffic-manager gets captures of other namespaces, and is no reader; a pod of a Deployment of that name elsewhere is
// none of it.
func TestAReplicaRecordsMembersWithoutPods(t *testing.T) {
	s := newSite(t, func(c *manager.Config) { c.Namespace = c.Readers[0][:strings.Index(c.Readers[0], ":")] })
	own := s.deployed(manager.DeploymentName)
	capture := s.capture("cap", nil, own)
	capture.Status.Pods[0].Workload = crdv1.KindExternalWorkload + "/x"
	s.Must(s.Client.Status().Update(s.Context(), capture))
	c := s.container(own, "i1")
	if got := c.applies(1)[0].GetPorts()[0].GetMember(); got != crdv1.KindExternalWorkload+"/"+s.namespace+"/x" {
		t.Errorf("the member is %s", got)
	}
	if refused := c.hands(nil, c.exchange(capture, 1, 10)); refused != nil {
		t.Errorf("refused are %q", refused)
	}
	other := newSite(t)
	pod := other.deployed(manager.DeploymentName)
	shows := other.shows(other.Token(other.namespace, "default", manager.Audience, pod))
	other.Eventually("a Deployment of that name is refused, once the caches have synced", func() error {
		stream, err := trafficv1.NewSidecarsClient(other.conn).Attach(shows)
		other.Must(err)
		if _, err = stream.Recv(); status.Code(err) != codes.PermissionDenied {
			return fmt.Errorf("the error is %w", err)
		}
		return nil
	})
}
