package admission

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
)

// server answers SubjectAccessReviews, and nothing else.
type server struct {
	client.Client
	mu      sync.Mutex
	asked   []authorizationv1.SubjectAccessReviewSpec
	answer  authorizationv1.SubjectAccessReviewStatus
	fails   error
	silent  bool
	before  func(authorizationv1.ResourceAttributes)
	atOnce  int
	highest int
}

func (s *server) Create(ctx context.Context, o client.Object, _ ...client.CreateOption) error {
	review, ok := o.(*authorizationv1.SubjectAccessReview)
	if !ok {
		return errors.New("it writes something")
	}
	s.mu.Lock()
	s.asked = append(s.asked, review.Spec)
	s.atOnce++
	s.highest = max(s.highest, s.atOnce)
	s.mu.Unlock()
	if s.before != nil {
		s.before(*review.Spec.ResourceAttributes)
	}
	defer func() { s.mu.Lock(); s.atOnce--; s.mu.Unlock() }()
	if s.silent {
		<-ctx.Done()
		return ctx.Err()
	}
	review.Status = s.answer
	return s.fails
}

// reviewer asks a server.
func reviewer(s *server) *Reviewer {
	return newReviewer(Config{OperatorNamespace: "signadot", Limits: Limits{}.WithDefaults(), Logger: slog.New(slog.DiscardHandler),
		Exempt: []string{"system:serviceaccount:signadot:signadot-controller-manager"}}, newAsker(s, time.Now))
}

// request is one to create a VirtualWorkload, which takes one right.
func request(t *testing.T, change func(*admissionv1.AdmissionRequest)) *admissionv1.AdmissionRequest {
	t.Helper()
	author := crdv1.Author{User: "ann", Groups: []string{"team"}}
	w := &crdv1.VirtualWorkload{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{crdv1.AnnotationAuthor: author.String()}}, Spec: crdv1.VirtualWorkloadSpec{Name: "x", Baseline: crdv1.ObjectRef{APIVersion: "apps/v1", Kind: "Deployment", Name: "a"}}}
	raw, err := json.Marshal(w)
	if err != nil {
		t.Fatal(err)
	}
	req := &admissionv1.AdmissionRequest{
		Kind: metav1.GroupVersionKind{Group: crdv1.Group, Version: "v1", Kind: crdv1.KindVirtualWorkload}, Operation: admissionv1.Create,
		Namespace: "shop", Name: "v", Object: runtime.RawExtension{Raw: raw},
		UserInfo: authenticationv1.UserInfo{Username: "ann", UID: "1", Groups: []string{"team"}, Extra: map[string]authenticationv1.ExtraValue{"scopes": {"a"}}},
	}
	change(req)
	return req
}

func TestReview(t *testing.T) {
	allows, denies := authorizationv1.SubjectAccessReviewStatus{Allowed: true}, authorizationv1.SubjectAccessReviewStatus{}
	with := func(raw string) func(*admissionv1.AdmissionRequest) {
		return func(r *admissionv1.AdmissionRequest) { r.Object.Raw = []byte(raw) }
	}
	updates := func(before string) func(*admissionv1.AdmissionRequest) {
		return func(r *admissionv1.AdmissionRequest) {
			r.Operation = admissionv1.Update
			r.OldObject.Raw = []byte(before)
			if before == "" {
				r.OldObject.Raw = r.Object.Raw
			}
		}
	}
	tests := []struct {
		name   string
		server *server
		change func(*admissionv1.AdmissionRequest)
		code   int32 // 0: it is allowed.
		says   string
		asked  int
	}{
		{"one who may", &server{answer: allows}, func(*admissionv1.AdmissionRequest) {}, 0, "", 1},
		{"one who may not", &server{answer: denies}, func(*admissionv1.AdmissionRequest) {}, http.StatusForbidden,
			"VirtualWorkload shop/v needs rights that you do not have: you may not create deployments.apps in namespace shop", 1},
		{"one who is denied by an authorizer", &server{answer: authorizationv1.SubjectAccessReviewStatus{Allowed: true, Denied: true}},
			func(*admissionv1.AdmissionRequest) {}, http.StatusForbidden, "needs rights", 1},
		{"the API server fails", &server{fails: errors.New("etcd is away")}, func(*admissionv1.AdmissionRequest) {}, http.StatusServiceUnavailable,
			"could not be found out (ask whether the author may create deployments.apps in namespace shop: etcd is away): try again", 1},
		{"our own account", &server{}, func(r *admissionv1.AdmissionRequest) {
			r.UserInfo.Username = "system:serviceaccount:signadot:signadot-controller-manager"
		}, 0, "", 0},
		{"an account that is called nearly so", &server{}, func(r *admissionv1.AdmissionRequest) {
			r.UserInfo.Username = "system:serviceaccount:other:signadot-controller-manager"
			r.Object.Raw = bytes.Replace(r.Object.Raw, []byte("ann\\"), []byte(r.UserInfo.Username+"\\"), 1)
		}, http.StatusForbidden, "needs rights", 1},
		{"a new object without a recorded author", &server{}, with(`{}`), http.StatusForbidden, "author.signadot.com was not called", 0},
		{"a new object with another author", &server{}, with(`{"metadata": {"annotations": {"switchyard.dev/author": "{\"user\":\"bob\"}"}}}`), http.StatusForbidden, "does not name the author of this change", 0},
		{"a deletion", &server{}, func(r *admissionv1.AdmissionRequest) { r.Operation = admissionv1.Delete }, 0, "", 0},
		{"a status", &server{}, func(r *admissionv1.AdmissionRequest) { r.SubResource = "status" }, 0, "", 0},
		{"an update that changes nothing", &server{}, updates(""), 0, "", 0},
		{"an update of the spec", &server{}, updates(`{"spec": {"name": "y"}}`), http.StatusForbidden, "needs rights", 1},
		{"an update of what cannot be read", &server{}, updates(`{`), http.StatusForbidden, "needs rights", 1},
		{"an object that cannot be read", &server{}, with(`{`), http.StatusBadRequest, "cannot be read", 0},
		{"a kind that nobody knows", &server{}, func(r *admissionv1.AdmissionRequest) { r.Kind.Kind = "Pod" }, http.StatusBadRequest, "registered wrongly", 0},
		{"a kind of another group", &server{}, func(r *admissionv1.AdmissionRequest) { r.Kind.Group = "x" }, http.StatusBadRequest, "registered wrongly", 0},
		{"a fault of ours (there is no cache here)", &server{answer: allows}, patched, http.StatusInternalServerError, "a fault of the operator's", 1},
		{"patches of one who may not have the workload, which are not looked at", &server{answer: denies}, patched, http.StatusForbidden, "you may not create deployments.apps in namespace shop", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := reviewer(tt.server).Review(t.Context(), request(t, tt.change))
			if got.Allowed != (tt.code == 0) || len(tt.server.asked) != tt.asked {
				t.Fatalf("allowed: %t; asked %d times", got.Allowed, len(tt.server.asked))
			}
			if !got.Allowed && (got.Result.Code != tt.code || !strings.Contains(got.Result.Message, tt.says)) {
				t.Errorf("%d %s", got.Result.Code, got.Result.Message)
			}
		})
	}
}

func TestTheAuthorIsAskedAboutWhole(t *testing.T) {
	s := &server{answer: authorizationv1.SubjectAccessReviewStatus{Allowed: true}}
	reviewer(s).Review(t.Context(), request(t, func(*admissionv1.AdmissionRequest) {}))
	spec := s.asked[0]
	if spec.User != "ann" || spec.UID != "1" || spec.Groups[0] != "team" || spec.Extra["scopes"][0] != "a" || spec.ResourceAttributes.Group != "apps" {
		t.Errorf("%+v", spec)
	}
}

func TestAnAPIServerThatDoesNotAnswerIsNotWaitedForForLong(t *testing.T) {
	r := reviewer(&server{silent: true})
	got := r.Review(t.Context(), request(t, func(*admissionv1.AdmissionRequest) {}))
	if got.Allowed || got.Result.Code != http.StatusServiceUnavailable || !strings.Contains(got.Result.Message, "try again") {
		t.Errorf("%+v", got)
	}
}

func TestReviewsAreCached(t *testing.T) {
	now := time.Unix(0, 0)
	s := &server{answer: authorizationv1.SubjectAccessReviewStatus{Allowed: true}}
	a := newAsker(s, func() time.Time { return now })
	ann, bob := authenticationv1.UserInfo{Username: "ann"}, authenticationv1.UserInfo{Username: "bob"}
	create := []Want{{Access: Access{Verb: "create", Resource: "deployments", Namespace: "shop"}}}
	get := []Want{{Access: Access{Verb: "get", Resource: "deployments", Namespace: "shop"}}}
	ask := func(user authenticationv1.UserInfo, wants []Want, asked int) {
		t.Helper()
		if _, err := a.lacking(t.Context(), user, wants); err != nil || len(s.asked) != asked {
			t.Errorf("asked %d times, want %d: %v", len(s.asked), asked, err)
		}
	}
	ask(ann, create, 1)
	ask(ann, create, 1)
	ask(bob, create, 2)
	ask(ann, get, 3)
	ask(authenticationv1.UserInfo{Username: "ann", Groups: []string{"more"}}, create, 4)
	now = now.Add(remembered)
	ask(ann, create, 5)
	s.answer.Allowed = false
	now = now.Add(remembered)
	ask(ann, create, 6)
	ask(ann, create, 7) // That she may not is not remembered.
}

// After as many missing rights as a refusal names there are no further requests, except for those
// already in flight.
func TestOneWhoMayDoNothingIsNotAskedAboutForLong(t *testing.T) {
	s := &server{}
	wants := make([]Want, mostWants)
	got, err := newAsker(s, time.Now).lacking(t.Context(), authenticationv1.UserInfo{}, wants)
	if err != nil || len(got) <= mostTold || len(s.asked) > mostTold+1+atOnce {
		t.Errorf("%d are lacking, %d were asked about: %v", len(got), len(s.asked), err)
	}
}

// noWorkloads is a cache without any workload.
type noWorkloads struct{ client.Reader }

func (noWorkloads) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: "deployments"}, key.Name)
}

// patched is a request to create a ForkedWorkload with a patch.
func patched(r *admissionv1.AdmissionRequest) {
	r.Kind.Kind = crdv1.KindForkedWorkload
	r.Object.Raw = []byte(`{"metadata": {"annotations": {"switchyard.dev/author": "{\"user\":\"ann\",\"groups\":[\"team\"]}"}}, "spec": {"baseline": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"}, "patches": [{"merge": {"a": 1}}]}}`)
}

// While the API server is asked others can be worked out.
func TestNoQuestionIsAskedWhileRendering(t *testing.T) {
	s := &server{answer: authorizationv1.SubjectAccessReviewStatus{Allowed: true}}
	r := reviewer(s)
	r.config.Client = noWorkloads{}
	s.before = func(a authorizationv1.ResourceAttributes) {
		if n := len(r.rendering); n != 0 {
			t.Errorf("%s %s is asked about with %d slots taken", a.Verb, a.Resource, n)
		}
	}
	if got := r.Review(t.Context(), request(t, patched)); !got.Allowed || len(s.asked) != 4 {
		t.Errorf("%+v after %d questions", got, len(s.asked))
	}
}

// A cancelled review is no answer, even if all rights are already cached.
func TestAnAnswerThatNobodyWaitsForIsNone(t *testing.T) {
	r := reviewer(&server{answer: authorizationv1.SubjectAccessReviewStatus{Allowed: true}})
	r.config.Client = noWorkloads{}
	in, refusal := r.read(request(t, patched), Change{Spec: true})
	if refusal != nil {
		t.Fatal(refusal)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 {
		if d, err := r.rendered(ctx, in); err == nil {
			t.Fatalf("it is %+v", d)
		}
	}
}

func TestTooManyRightsAreReported(t *testing.T) {
	d := Decision{Wants: make([]Want, mostWants+1)}
	got := reviewer(&server{}).decided(t.Context(), request(t, patched), d)
	if got.Allowed || !strings.Contains(got.Result.Message, "it takes 201 rights, and at most 200 can be asked about: split it into several objects") {
		t.Errorf("%+v", got.Result)
	}
}

func TestFewQuestionsAreOpenAtOnce(t *testing.T) {
	s := &server{answer: authorizationv1.SubjectAccessReviewStatus{Allowed: true}}
	a := newAsker(s, time.Now)
	var wants []Want
	for i := range 300 {
		wants = append(wants, Want{Access: Access{Verb: "get", Resource: "secrets", Name: string(rune('a' + i))}})
	}
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if _, err := a.lacking(t.Context(), authenticationv1.UserInfo{}, wants); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if s.highest > atOnceInAll {
		t.Errorf("%d questions were open at once", s.highest)
	}
}
