package census

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
)

// slowReader finds nothing, when it is let.
type slowReader struct {
	client.Reader
	asked, goOn chan struct{}
}

func (r *slowReader) List(context.Context, client.ObjectList, ...client.ListOption) error {
	r.asked <- struct{}{}
	<-r.goOn
	return nil
}

// What was asked before a sandbox had parts again says nothing of whether they are gone.
func TestAnAnswerFromBeforeItWasForgottenIsNotGiven(t *testing.T) {
	r := &slowReader{asked: make(chan struct{}), goOn: make(chan struct{})}
	c, s := New(r), &crdv1.SignadotSandbox{ObjectMeta: metav1.ObjectMeta{Name: "goes", UID: "uid"}}
	kinds := []string{"ForkedWorkload"}
	known := make(chan bool)
	ask := func() {
		_, is, err := c.Left(context.Background(), s, kinds)
		if err != nil {
			t.Error(err)
		}
		known <- is
	}
	go ask()
	<-r.asked
	c.Forget(s, kinds)
	r.goOn <- struct{}{}
	if <-known {
		t.Error("the answer of a look from before it was forgotten is given")
	}
	go ask()
	<-r.asked // anew
	r.goOn <- struct{}{}
	if !<-known {
		t.Error("the answer of a look from after it was forgotten is not given")
	}
}
