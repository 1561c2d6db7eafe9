package recording

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
)

// follow reads an existing capture, as Asked.Capture states. The result is there once reading has begun.
func follow(ctx context.Context, cfg Config, of Name, most time.Duration) (*Result, error) {
	cfg.Left, cfg.Progress, cfg.Save = nil, nil, nil
	r := newRun(cfg)
	c, err := r.look(ctx, &crdv1.TrafficCapture{ObjectMeta: metav1.ObjectMeta{Namespace: of.Namespace, Name: of.Name}})
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("%w: %s/%s", ErrNoCapture, of.Namespace, of.Name)
	}
	if err == nil {
		_, err = cfg.Ticket(ctx, of.Namespace, of.Name)
	}
	if err != nil {
		return nil, fmt.Errorf("read TrafficCapture %s/%s: %w", of.Namespace, of.Name, err)
	}
	r.captures, r.progress.Ready = append(r.captures, c), true
	cfg.Note(fmt.Sprintf("TrafficCapture %s/%s is read: %s", of.Namespace, of.Name, condition(c, crdv1.ConditionReady).Message))
	reading, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	ended := make(chan struct{})
	go func() { r.read(reading); close(ended) }()
	err = r.wait(ctx, most, ended, "")
	stop()
	<-ended
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainWithin)
	defer cancel()
	// In this order: what the counts have as stored can be read.
	all, unanswered := r.reports(last)
	if err == nil {
		r.ending, r.rest = true, true
		r.read(last)
		select {
		case err = <-r.failed:
		default:
		}
	}
	return r.result(err == nil && last.Err() == nil, all, unanswered), err
}
