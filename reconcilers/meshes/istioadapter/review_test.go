package istioadapter

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/semaphore"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// TestAProcessThatStartsWaitsForItsFirstLook has an owner write a VirtualService before the first
// look, and leaves the next process without one.
func TestAProcessThatStartsWaitsForItsFirstLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &Adapter{config: Config{Own: "leader", Logger: slog.New(slog.DiscardHandler)}, reviews: semaphore.NewWeighted(mostReviews)}
		text, err := virtualService("a", "customer", "1").MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		review := func() *admissionv1.AdmissionResponse {
			return a.Review(t.Context(), &admissionv1.AdmissionRequest{Kind: metav1.GroupVersionKind(VirtualServices), Object: runtime.RawExtension{Raw: text}})
		}
		if a.Ready() == nil {
			t.Error("it is ready before it has started")
		}
		a.began = time.Now()
		if a.Ready() == nil {
			t.Error("it is ready before it has looked")
		}
		if answer := review(); answer.Patch != nil || time.Since(a.began) != awaits {
			t.Errorf("without any look it answers %+v after %s", answer, time.Since(a.began))
		}
		go func() {
			time.Sleep(awaits / 2)
			a.mu.Lock()
			a.state = (*state)(nil).next(shop(map[string][]string{"customer": {"k1"}}))
			a.mu.Unlock()
			a.synced.Send()
		}()
		if answer := review(); answer.Patch == nil {
			t.Error("after the first look it puts no routes in")
		}
		if err := a.Ready(); err != nil {
			t.Error(err)
		}
		a.state = nil
		time.Sleep(firstLook)
		if err := a.Ready(); err != nil {
			t.Error("it is never ready without a look")
		}
	})
}

// TestReviewsDoNotPileUp makes as many reviews wait for the leader's state as are allowed, and sends
// one more.
func TestReviewsDoNotPileUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &Adapter{config: Config{Own: "leader", Logger: slog.New(slog.DiscardHandler)}, reviews: semaphore.NewWeighted(mostReviews)}
		review := func() {
			answer := a.Review(t.Context(), &admissionv1.AdmissionRequest{
				Kind: metav1.GroupVersionKind(VirtualServices), UserInfo: authenticationv1.UserInfo{Username: "leader"},
				Object: runtime.RawExtension{Raw: []byte(`{"apiVersion": "networking.istio.io/v1", "kind": "VirtualService", "metadata": {"annotations": {"istio.signadot.com/routes": "not known here"}}}`)},
			})
			if !answer.Allowed || answer.Patch != nil {
				t.Errorf("the answer is %+v", answer)
			}
		}
		var answered atomic.Int64
		var waiting sync.WaitGroup
		for range mostReviews {
			waiting.Go(func() {
				review()
				answered.Add(1)
			})
		}
		synctest.Wait()
		began := time.Now()
		review()
		if took := time.Since(began); took > 0 || answered.Load() > 0 {
			t.Errorf("one more waits for %s, and %d others have their answers", took, answered.Load())
		}
		waiting.Wait()
		review()
		if took := time.Since(began); took != 2*awaits {
			t.Errorf("once there is room again a review waits %s in all", took)
		}
	})
}

// TestChangesOfOtherWebhooksStay has another webhook change the owner's part within the write
// by which the leader asks for its routes.
func TestChangesOfOtherWebhooksStay(t *testing.T) {
	a := &Adapter{config: Config{Own: "leader", Logger: slog.New(slog.DiscardHandler)}, reviews: semaphore.NewWeighted(mostReviews)}
	owners := virtualService("a", "customer", "1")
	a.state = (*state)(nil).next(shop(map[string][]string{"customer": {"k1"}}, owners))
	meant := a.state.objects[types.NamespacedName{Namespace: "shop", Name: "a"}].rendering.Object.GetAnnotations()[AnnotationRoutes]
	asks := func() *unstructured.Unstructured {
		o := owners.DeepCopy()
		annotate(o, AnnotationRoutes, meant)
		return o
	}
	if a.known(asks(), meant) == nil {
		t.Fatal("what the leader writes is rendered once more")
	}
	for what, change := range map[string]func(o *unstructured.Unstructured){
		"the spec":    later,
		"a label":     func(o *unstructured.Unstructured) { o.SetLabels(map[string]string{"team": "theirs"}) },
		"the version": func(o *unstructured.Unstructured) { o.SetResourceVersion("2") },
		"the object":  func(o *unstructured.Unstructured) { o.SetUID("another") },
		"the digest":  func(o *unstructured.Unstructured) { annotate(o, AnnotationRoutes, "another") },
		"an annotation": func(o *unstructured.Unstructured) {
			all := o.GetAnnotations()
			all["team"] = "theirs"
			o.SetAnnotations(all)
		},
	} {
		o := asks()
		change(o)
		if a.known(o, o.GetAnnotations()[AnnotationRoutes]) != nil {
			t.Errorf("with %s changed the routes are those for the version before", what)
		}
	}
}

// later changes the timeout of the owner's route.
func later(o *unstructured.Unstructured) {
	routesOf(o).([]any)[0].(map[string]any)["timeout"] = "7s"
}
