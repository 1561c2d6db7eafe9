package adapter

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
	"k8s.io/apimachinery/pkg/runtime"
)

// TestReviewsDoNotPileUp has a replica wait for what the leader knows in as many reviews as may
// wait, and asks for one more.
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
