package jobs

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"

	v2 "switchyard.dev/protos/controlplane/v2"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tools/switchyard/command/plane"
)

// controlPlane is the site of a control plane. A job has one attempt.
type controlPlane struct {
	s *command.Session
	p *plane.Plane
}

const attempt = "0"

// body is the body of a request.
func body(of any) *bytes.Reader {
	text, _ := json.Marshal(of) // it was decoded from JSON
	return bytes.NewReader(text)
}

func (c *controlPlane) submit(ctx context.Context, spec v2.JobSpec) (v2.Job, error) {
	return whole(plane.Answer[v2.Job](c.p.API.SubmitJobWithBody(ctx, c.p.Org, "application/json", body(map[string]any{"spec": spec}))))
}

// whole returns a job with its attempt.
func whole(j v2.Job, err error) (v2.Job, error) {
	if err == nil && len(j.Status.Attempts) == 0 {
		err = exit.Unavailable.Errorf("the control plane answers with a job without an attempt")
	}
	return j, err
}

func (c *controlPlane) job(ctx context.Context, name string) (v2.Job, error) {
	return whole(plane.Answer[v2.Job](c.p.API.GetJob(ctx, c.p.Org, name)))
}

func (c *controlPlane) jobs(ctx context.Context) ([]v2.Job, error) {
	all, err := plane.Answer[[]v2.Job](c.p.API.ListJobs(ctx, c.p.Org, nil))
	for i := 0; i < len(all) && err == nil; i++ {
		_, err = whole(all[i], nil)
	}
	return all, err
}

func (c *controlPlane) cancel(ctx context.Context, name string) (v2.Job, error) {
	return whole(plane.Answer[v2.Job](c.p.API.CancelJob(ctx, c.p.Org, name)))
}

func (c *controlPlane) changed(ctx context.Context, was v2.Job) (now v2.Job, err error) {
	const times = 4
	for range times {
		select {
		case <-ctx.Done():
			return now, ctx.Err()
		case <-time.After(pause / times):
		}
		if now, err = c.job(ctx, was.Name); err != nil || !reflect.DeepEqual(now, was) {
			break
		}
	}
	return now, err
}

func (c *controlPlane) artifacts(ctx context.Context, name string) ([]v2.JobArtifact, error) {
	return plane.Answer[[]v2.JobArtifact](c.p.API.ListJobArtifacts(ctx, c.p.Org, name, attempt, nil))
}

func (c *controlPlane) output(ctx context.Context, job string, of *stream, to io.Writer) error {
	if !of.follow {
		return exit.Usage.Errorf("a control plane streams output until the job ends: omit --follow=false")
	}
	params := &v2.StreamJobLogsParams{Type: &of.name}
	switch {
	case of.cursor != "":
		params.Cursor = &of.cursor
	case of.tail > 0:
		params.TailLines = &of.tail
	}
	answer, err := plane.Body(c.p.API.StreamJobLogs(ctx, c.p.Org, job, attempt, params))
	if err != nil {
		return err
	}
	defer answer.Close()
	return c.events(bufio.NewReader(answer), job, of, to)
}

// events writes the messages of a stream of server-sent events, until one ends it.
func (c *controlPlane) events(from *bufio.Reader, job string, of *stream, to io.Writer) error {
	event := ""
	for {
		line, err := from.ReadString('\n')
		if err != nil {
			return exit.Unavailable.Errorf("the %s of job %s was interrupted: %w", of.name, job, err)
		}
		field, text, _ := strings.Cut(strings.TrimRight(line, "\r\n"), ":")
		text = strings.TrimPrefix(text, " ")
		switch {
		case field == "event":
			event = text
		case field != "data":
		case event == "signal" && text == "EOF":
			of.of = ended
			return nil
		case event == "signal":
			note(c.s, fmt.Sprintf("the script of job %s runs again: this is the %s of its next execution", job, of.name))
		case event == "error":
			return exit.Unavailable.Errorf("the %s of job %s: %w", of.name, job, errors.New(text))
		default:
			var m struct{ Message, Cursor string }
			if err := json.Unmarshal([]byte(text), &m); err != nil {
				return exit.Unavailable.Errorf("the control plane answers with output that cannot be read: %w", err)
			}
			if _, err := io.WriteString(to, m.Message); err != nil {
				return err
			}
			of.cursor = m.Cursor
		}
	}
}

// ended is the execution of a stream that has all executions.
const ended = 1 << 30

func (c *controlPlane) download(ctx context.Context, job, path string, to io.Writer) error {
	name, system := strings.CutPrefix(path, "@")
	space := map[bool]string{true: "system", false: "user"}[system]
	answer, err := plane.Body(c.p.API.DownloadJobArtifact(ctx, c.p.Org, job, attempt, &v2.DownloadJobArtifactParams{Path: name, Space: &space}))
	if err != nil {
		return err
	}
	defer answer.Close()
	if _, err = io.Copy(to, answer); err != nil {
		return exit.Unavailable.Errorf("%s of job %s was interrupted: %w", path, job, err)
	}
	return nil
}

func (c *controlPlane) apply(ctx context.Context, name string, spec v2.JobRunnerGroupSpec) (v2.JobRunnerGroup, error) {
	return plane.Answer[v2.JobRunnerGroup](c.p.API.ApplyRunnerGroupWithBody(ctx, c.p.Org, name, "application/json", body(map[string]any{"name": name, "spec": spec})))
}

func (c *controlPlane) group(ctx context.Context, name string) (v2.JobRunnerGroup, error) {
	return plane.Answer[v2.JobRunnerGroup](c.p.API.GetRunnerGroup(ctx, c.p.Org, name))
}

func (c *controlPlane) groups(ctx context.Context) ([]v2.JobRunnerGroup, error) {
	return plane.Answer[[]v2.JobRunnerGroup](c.p.API.ListRunnerGroups(ctx, c.p.Org))
}

func (c *controlPlane) remove(ctx context.Context, name string) error {
	_, err := plane.Answer[v2.EmptyResponse](c.p.API.DeleteRunnerGroup(ctx, c.p.Org, name))
	return err
}
