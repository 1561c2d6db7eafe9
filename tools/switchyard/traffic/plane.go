package traffic

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"k8s.io/utils/ptr"

	"switchyard.dev/eventbus/wake"
	v2 "switchyard.dev/protos/controlplane/v2"
	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
	"switchyard.dev/sidecars/traffic/published"
	"switchyard.dev/sidecars/traffic/recording"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tools/switchyard/command/plane"
	"switchyard.dev/tools/switchyard/show"
)

const (
	// readEvery is the pause between two reads of a capture, and mostRead how many requests a read returns.
	readEvery, mostRead = 2 * time.Second, 1000
	// unreadWithin bounds the time without an answer, and endWithin that from the interrupt to the end of the capture.
	unreadWithin, endWithin = time.Minute, 3 * time.Minute
)

// kept is a recording that a control plane makes and keeps.
type kept struct {
	s       *command.Session
	p       *plane.Plane
	name    string
	outputs []output
	printed map[string]bool
	noted   string
	// begun: it was ready.
	begun bool
}

// recordThere has the control plane record, prints its requests, and downloads the archive.
func recordThere(ctx context.Context, s *command.Session, asked recording.Asked, to target) error {
	if to.dir != "" {
		return exit.Usage.Errorf("--out-dir needs a kubeconfig: a control plane keeps requests as an HTTP Archive (--har FILE)")
	}
	p, err := s.OpenPlane(ctx)
	if err != nil {
		return err
	}
	spec := v2.CaptureSpec{Sandbox: asked.Sandbox}
	if asked.Workload != "" {
		spec.Workload = &asked.Workload
	}
	if asked.For > 0 {
		spec.Duration = new(asked.For.String())
	}
	c, err := plane.Answer[v2.Capture](p.API.CreateCapture(ctx, p.Org, v2.CreateCaptureJSONRequestBody{Spec: spec}))
	if err != nil {
		return err
	}
	k := &kept{s: s, p: p, name: c.Name, printed: map[string]bool{}}
	k.note("capture " + k.name + " of the control plane is created")
	if k.outputs, err = (target{file: to.file}).open(s); err != nil {
		return exit.Failed.Errorf("%w", err)
	}
	c, err = k.follow(ctx)
	for _, o := range k.outputs {
		err = errors.Join(err, o.end(""))
	}
	if err != nil {
		return fmt.Errorf("capture %s: %w", k.name, err)
	}
	counts := &trafficv1.Counts{}
	if text, err := json.Marshal(c.Status.Counts); err == nil {
		_ = protojson.Unmarshal(text, counts) // it has the same fields
	}
	k.note(fmt.Sprintf("%s; %d are kept by the control plane", recording.Identity(counts), c.Status.Requests))
	if !k.begun && ctx.Err() == nil {
		return exit.No.Errorf("%w: %s", recording.ErrNotReady, ptr.Deref(c.Status.Message, ""))
	}
	if to.har != "" {
		return k.download(context.WithoutCancel(ctx), to.har)
	}
	return nil
}

func (k *kept) note(text string) { _, _ = io.WriteString(k.s.Err, show.Line(text)+"\n") }

// follow prints the requests of the capture until it has ended, which it does when ctx ends.
func (k *kept) follow(ctx context.Context) (v2.Capture, error) {
	on, asked, answered := context.WithoutCancel(ctx), time.Time{}, time.Now()
	for {
		c, err := k.read(on)
		if err == nil {
			answered = time.Now()
		}
		if ctx.Err() != nil && asked.IsZero() && (err != nil || c.Status.Phase != "ended") {
			asked = time.Now()
			_, err = plane.Answer[v2.Capture](k.p.API.EndCapture(on, k.p.Org, k.name))
		}
		switch {
		case err == nil && c.Status.Phase == "ended":
			return c, nil
		case plane.StatusOf(err) != 0, err != nil && time.Since(answered) > unreadWithin:
			return c, err
		case !asked.IsZero() && time.Since(asked) > endWithin:
			return c, exit.Unavailable.Errorf("it has not ended within %s, and ends by itself", endWithin)
		}
		if !wake.Sleep(ctx, readEvery) {
			time.Sleep(readEvery / 2)
		}
	}
}

// read reads the state of the capture, and prints the requests that are new.
func (k *kept) read(ctx context.Context) (v2.Capture, error) {
	ctx, cancel := k.s.Patiently(ctx)
	defer cancel()
	c, err := plane.Answer[v2.Capture](k.p.API.GetCapture(ctx, k.p.Org, k.name))
	if err != nil {
		return c, err
	}
	k.begun = k.begun || c.Status.Phase == "recording" || c.Status.Counts.Seen > 0
	if text := cmp.Or(ptr.Deref(c.Status.Message, ""), c.Status.Phase); text != k.noted {
		k.noted = text
		k.note(text)
	}
	all, err := plane.Answer[[]published.Meta](k.p.API.ListCapturedRequests(ctx, k.p.Org, k.name, &v2.ListCapturedRequestsParams{Limit: new(mostRead)}))
	for _, m := range slices.Backward(all) {
		if k.printed[m.MiddlewareRequestID] {
			continue
		}
		k.printed[m.MiddlewareRequestID] = true
		err = errors.Join(err, printed(k.s, m))
		for _, o := range k.outputs {
			err = errors.Join(err, o.add(nil, m))
		}
	}
	return c, err
}

// download writes the archive of the capture. The file has its name once it is complete.
func (k *kept) download(ctx context.Context, path string) error {
	from, err := plane.Body(k.p.API.DownloadCaptureHAR(ctx, k.p.Org, k.name))
	if err != nil {
		return err
	}
	defer from.Close()
	part, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.part")
	if err != nil {
		return err
	}
	_, err = io.Copy(part, from)
	if err = errors.Join(err, part.Close()); err != nil {
		return errors.Join(fmt.Errorf("capture %s is not downloaded, and is kept by the control plane: %w", k.name, err), os.Remove(part.Name()))
	}
	return os.Rename(part.Name(), path)
}
